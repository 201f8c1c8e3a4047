"""What a run of reads came to, in the numbers that the promise is made of."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from precall.bench.results import Measurement
from precall.client import Read
from precall.scoring.evidence import TOP

PROMISE_MS: Final = 15.0


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """One read beside the server's own answer. ``elapsed_ms`` is measured around the call, all inside.

    ``read_ids`` and ``server_ids`` are what the top ten stand for, best first; ``evidence``: what answers, if
    it is known. ``predictors``: what had each of the read's items pushed; empty where the server answered.
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
    predictors: Sequence[str]
    stage_ms: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        read: Read,
        *,
        conversation: str,
        category: str,
        elapsed_ms: float,
        read_ids: Sequence[str],
        server_ids: Sequence[str],
        evidence: Sequence[str],
    ) -> Self:
        return cls(
            conversation,
            category,
            elapsed_ms,
            read.encode_ms,
            read.source,
            read.status,
            read.decision,
            read_ids,
            server_ids,
            evidence,
            [item.predictor for item in read.items],
            {"encode": read.encode_ms, "look-up": read.lookup_ms, "server": read.server_ms},
        )

    @property
    def by_cache(self) -> bool:
        return self.source == "cache"

    @property
    def hit(self) -> bool:
        """The cache answered alone, in full standing."""
        return self.by_cache and self.status != "degraded"

    @property
    def wrong(self) -> bool:
        """The cache answered in full standing, and lost evidence that the server's own ten have; where no
        evidence is known, one of the server's first three. A degraded answer says that it may lack some.
        """
        return self.hit and self.lacks

    @property
    def lacks(self) -> bool:
        """As ``wrong``, whoever answered and however."""
        return bool(self._owed.difference(self.read_ids))

    @property
    def lost_top(self) -> bool:
        """As ``wrong``, by the server's first three whatever the evidence."""
        return self.hit and not set(self.server_ids[:TOP]).issubset(self.read_ids)

    @property
    def degraded(self) -> bool:
        return self.status == "degraded"

    @property
    def _owed(self) -> set[str]:
        if self.evidence:
            return set(self.evidence).intersection(self.server_ids)
        return set(self.server_ids[:TOP])


@dataclass(frozen=True, slots=True)
class Fill:
    """How one session's cache was filled. ``opening_ms``: till what is held whole was stored. ``leads_ms``:
    from what was said to the push that it caused stored, the last one of each utterance.
    """

    conversation: str
    held_items: int
    complete_rungs: Sequence[str]
    pushes: int
    opening_ms: float
    leads_ms: Sequence[float]


@dataclass(frozen=True, slots=True)
class ReadsSetting:
    """What was asked for. ``typed``: no partial transcripts came. ``memories``: in all rungs together.

    ``max_items``: that a session may hold; None: the client's default. ``held_out``: what was asked, where
    something was fitted on the rest.
    """

    profile: str
    typed: bool
    rtt_ms: float
    speed: float
    memories: int
    max_items: int | None = None
    held_out: str = ""


@dataclass(frozen=True, slots=True)
class ReadsOfKind:
    """Reads of one kind; shares are of these."""

    reads: int
    hit_rate: float
    wrong_serve_rate: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Where reads of one decision spent their time. ``p50_ms``, ``p95_ms``: by stage."""

    reads: int
    p50_ms: Mapping[str, float]
    p95_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PredictorShare:
    """What one predictor brought. ``used_items``: those that a read served, as the server was told.

    ``hits``: reads that the cache answered, whose best item it had brought.
    """

    pushed_items: int
    used_items: int
    hits: int


@dataclass(frozen=True, slots=True)
class ReadsReport:
    """A run. Shares are of all reads, hits and misses alike; ``wrong_serve_rate`` too.

    ``lost_top_rate``: as wrong serves are counted where no evidence is known, of all reads.
    ``degraded_wrong_rate``: degraded answers that lack as much as a wrong serve does; they say so.
    ``stages``: by decision.
    ``server_p75_ms``: of reads that ask the server over the same link, as they would without a cache.
    ``used_items``: distinct memories that a conversation's reads returned from its cache.
    """

    setting: ReadsSetting
    reads: int
    hit_rate: float
    wrong_serve_rate: float
    lost_top_rate: float
    degraded_rate: float
    degraded_wrong_rate: float
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
    opening_p95_ms: float
    lead_p95_ms: float
    held_items_p50: float
    used_items: int
    predictors: Mapping[str, PredictorShare]
    kinds: Mapping[str, ReadsOfKind]
    decisions: Mapping[str, int]
    statuses: Mapping[str, int]
    stages: Mapping[str, StageTimes] = field(default_factory=dict)

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
            Measurement("reads", case, "degraded_rate", self.degraded_rate, "share"),
            Measurement("reads", case, "reads", self.reads, "reads"),
            Measurement("reads", case, "opening_p95", self.opening_p95_ms, "ms"),
            *([] if math.isnan(self.lead_p95_ms) else [self._lead(case)]),
            *(
                Measurement("reads", case, f"hit_rate of {kind}", of_kind.hit_rate, "share")
                for kind, of_kind in self.kinds.items()
            ),
        ]

    def _lead(self, case: str) -> Measurement:
        return Measurement("reads", case, "lead_p95", self.lead_p95_ms, "ms")

    def write(self, path: Path, machine: Mapping[str, Any]) -> None:
        """As JSON, written aside and renamed."""
        aside = path.with_name(path.name + ".part")
        aside.write_text(json.dumps(asdict(self) | {"machine": dict(machine)}, indent=2) + "\n")
        aside.replace(path)


def report(
    records: Sequence[ReadRecord],
    fills: Sequence[Fill],
    setting: ReadsSetting,
    *,
    pushed_items: Mapping[str, int],
    used_items: Mapping[str, int],
    server_ms: Sequence[float],
) -> ReadsReport:
    """``pushed_items``, ``used_items``: by predictor. Raises ValueError for a run without reads."""
    if not records:
        raise ValueError("no question was read")
    p50, p75, p95, p99 = np.percentile([record.elapsed_ms for record in records], (50, 75, 95, 99)).tolist()
    answerable = [record for record in records if record.evidence]
    read_recall = _mean([_recall(r.read_ids, r.evidence) for r in answerable])
    server_recall = _mean([_recall(r.server_ids, r.evidence) for r in answerable])
    leads = [lead for fill in fills for lead in fill.leads_ms]
    best_of = [record.predictors[0] for record in records if record.by_cache and record.predictors]
    returned = {
        (record.conversation, memory_id)
        for record in records
        for memory_id, predictor in zip(record.read_ids, record.predictors, strict=True)
        if predictor
    }
    return ReadsReport(
        setting=setting,
        reads=len(records),
        hit_rate=_mean([record.hit for record in records]),
        wrong_serve_rate=_mean([record.wrong for record in records]),
        lost_top_rate=_mean([record.lost_top for record in records]),
        degraded_rate=_mean([record.degraded for record in records]),
        degraded_wrong_rate=_mean([record.degraded and record.lacks for record in records]),
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
        opening_p95_ms=float(np.percentile([fill.opening_ms for fill in fills], 95)) if fills else math.nan,
        lead_p95_ms=float(np.percentile(leads, 95)) if leads else math.nan,
        held_items_p50=float(np.median([fill.held_items for fill in fills])) if fills else float("nan"),
        used_items=len(returned),
        predictors={
            name: PredictorShare(pushed_items.get(name, 0), used_items.get(name, 0), best_of.count(name))
            for name in sorted({*pushed_items, *used_items, *best_of})
        },
        kinds={
            kind: _of_kind([record for record in records if record.category == kind])
            for kind in sorted({record.category for record in records})
        },
        decisions=_counts([record.decision for record in records]),
        statuses=_counts([record.status for record in records]),
        stages=_stages(records),
    )


def _of_kind(records: Sequence[ReadRecord]) -> ReadsOfKind:
    return ReadsOfKind(
        len(records),
        _mean([record.hit for record in records]),
        _mean([record.wrong for record in records]),
        float(np.percentile([record.elapsed_ms for record in records], 95)),
    )


def _recall(ids: Sequence[str], evidence: Sequence[str]) -> float:
    return len(set(ids) & set(evidence)) / len(set(evidence))


def _mean(values: Sequence[float | bool]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _counts(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}


def _stages(records: Sequence[ReadRecord]) -> Mapping[str, StageTimes]:
    stages = {}
    for decision in sorted({record.decision for record in records}):
        these = [record.stage_ms for record in records if record.decision == decision and record.stage_ms]
        if these:
            percentiles = {
                name: np.percentile([times[name] for times in these], (50, 95)).tolist() for name in these[0]
            }
            stages[decision] = StageTimes(
                len(these),
                {name: p50 for name, (p50, _) in percentiles.items()},
                {name: p95 for name, (_, p95) in percentiles.items()},
            )
    return stages
