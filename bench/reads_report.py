"""What a run of reads came to, in the numbers that the promise is made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precall.bench.results import Measurement

PROMISE_MS = 15.0


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """One read beside the server's own answer. ``elapsed_ms`` is measured around the call, all inside.

    ``read_ids`` and ``server_ids`` are the turns that the top ten stand for; ``evidence`` those that answer.
    """

    conversation: str
    category: str
    elapsed_ms: float
    encode_ms: float
    source: str
    status: str
    decision: str
    read_ids: Sequence[str]
    server_ids: Sequence[str]
    evidence: Sequence[str]

    @property
    def hit(self) -> bool:
        """The cache answered alone, in full standing."""
        return self.source == "cache" and self.status != "degraded"

    @property
    def wrong(self) -> bool:
        """The cache answered, and lost evidence that the server's own ten have."""
        found = set(self.evidence) & set(self.server_ids)
        return self.source == "cache" and not found <= set(self.read_ids)


@dataclass(frozen=True, slots=True)
class Fill:
    """How one session's cache was filled: ``leads_ms`` from each event to its push stored."""

    conversation: str
    memories: int
    held_items: int
    complete_rungs: Sequence[str]
    pushes: int
    leads_ms: Sequence[float]


@dataclass(frozen=True, slots=True)
class ReadsReport:
    """A run. Shares are of all reads, hits and misses alike; ``wrong_serve_rate`` too.

    ``server_p75_ms``: of reads that ask the server over the same link, as they would without a cache.
    """

    rtt_ms: float
    speed: float
    reads: int
    hit_rate: float
    wrong_serve_rate: float
    p50_ms: float
    p75_ms: float
    p95_ms: float
    p99_ms: float
    server_p75_ms: float
    encode_p50_ms: float
    recall_at_10: float
    server_recall_at_10: float
    recall_ratio: float
    identical_top_10: float
    lead_p95_ms: float
    memories: int
    pushed_items: Mapping[str, int]
    used_items: int
    decisions: Mapping[str, int]
    statuses: Mapping[str, int]

    @property
    def keeps_promise(self) -> bool:
        return self.p75_ms < PROMISE_MS

    def measurements(self, case: str) -> list[Measurement]:
        """Rows for the table of results."""
        peer, ratio = "asking the server over the link", self.server_p75_ms / self.p75_ms
        return [
            Measurement("reads", case, "p50", self.p50_ms, "ms"),
            Measurement("reads", case, "p75", self.p75_ms, "ms", peer, ratio),
            Measurement("reads", case, "p95", self.p95_ms, "ms"),
            Measurement("reads", case, "p99", self.p99_ms, "ms"),
            Measurement("reads", case, "hit_rate", self.hit_rate, "share"),
            Measurement("reads", case, "wrong_serve_rate", self.wrong_serve_rate, "share"),
            Measurement(
                "reads", case, "recall_at_10", self.recall_at_10, "share", "server", self.recall_ratio
            ),
            Measurement("reads", case, "lead_p95", self.lead_p95_ms, "ms"),
        ]

    def write(self, path: Path, machine: Mapping[str, Any]) -> None:
        """As JSON, written aside and renamed."""
        aside = path.with_name(path.name + ".part")
        aside.write_text(json.dumps(asdict(self) | {"machine": dict(machine)}, indent=2) + "\n")
        aside.replace(path)


def report(
    records: Sequence[ReadRecord],
    fills: Sequence[Fill],
    *,
    rtt_ms: float,
    speed: float,
    pushed_items: Mapping[str, int],
    used_items: int,
    server_ms: Sequence[float],
) -> ReadsReport:
    """Raises ValueError for a run without reads."""
    if not records:
        raise ValueError("no question was read")
    elapsed = [record.elapsed_ms for record in records]
    p50, p75, p95, p99 = np.percentile(elapsed, (50, 75, 95, 99)).tolist()
    answerable = [record for record in records if record.evidence]
    read_recall = _mean([_recall(r.read_ids, r.evidence) for r in answerable])
    server_recall = _mean([_recall(r.server_ids, r.evidence) for r in answerable])
    leads = [lead for fill in fills for lead in fill.leads_ms]
    return ReadsReport(
        rtt_ms=rtt_ms,
        speed=speed,
        reads=len(records),
        hit_rate=_mean([record.hit for record in records]),
        wrong_serve_rate=_mean([record.wrong for record in records]),
        p50_ms=p50,
        p75_ms=p75,
        p95_ms=p95,
        p99_ms=p99,
        server_p75_ms=float(np.percentile(server_ms, 75)),
        encode_p50_ms=float(np.median([record.encode_ms for record in records])),
        recall_at_10=read_recall,
        server_recall_at_10=server_recall,
        recall_ratio=read_recall / server_recall if server_recall else float("nan"),
        identical_top_10=_mean([list(r.read_ids) == list(r.server_ids) for r in records]),
        lead_p95_ms=float(np.percentile(leads, 95)) if leads else float("nan"),
        memories=sum(fill.memories for fill in fills),
        pushed_items=dict(pushed_items),
        used_items=used_items,
        decisions=_counts([record.decision for record in records]),
        statuses=_counts([record.status for record in records]),
    )


def _recall(ids: Sequence[str], evidence: Sequence[str]) -> float:
    return len(set(ids) & set(evidence)) / len(set(evidence))


def _mean(values: Sequence[float | bool]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _counts(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}
