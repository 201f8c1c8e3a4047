"""What two caches made of the same questions, and how long their look-ups take."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from precall.bench.peer_cache_cases import CacheCase, CaseKind, Served, Verdict
from precall.bench.results import Measurement

OURS: Final = "precall"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of 100 questions. ``doubtful``: what a cache is not sure of is served too."""

    cache: str
    held: int
    doubtful: bool
    questions: int
    right: float
    wrong: float
    missed: float
    wrong_of_kind: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LookupTime:
    cache: str
    held: int
    p50_ms: float


@dataclass(frozen=True, slots=True)
class PeerCacheReport:
    outcomes: tuple[Outcome, ...]
    times: tuple[LookupTime, ...]

    def write(self, path: Path, machine: Mapping[str, Any]) -> None:
        path.write_text(json.dumps(asdict(self) | {"machine": dict(machine)}, indent=2) + "\n")

    def measurements(self) -> list[Measurement]:
        """Rows for the table of results."""
        rows = []
        for each in self.outcomes:
            case = f"{each.cache}, {each.held} held" + (", doubtful too" if each.doubtful else "")
            for metric, value in (("right", each.right), ("wrong", each.wrong), ("missed", each.missed)):
                rows.append(Measurement("peer-cache", case, metric, value, "per 100"))
        ours = {each.held: each.p50_ms for each in self.times if each.cache == OURS}
        for timed in self.times:
            case, mine = f"{timed.held} held", ours[timed.held]
            if timed.cache == OURS:
                rows.append(Measurement("peer-cache", case, "look-up p50", mine, "ms"))
            else:
                peer = f"maximem-synap by {timed.cache}"
                rows.append(
                    Measurement("peer-cache", case, "peer p50", timed.p50_ms, "ms", peer, timed.p50_ms / mine)
                )
        return rows


def outcome(
    name: str, held: int, asked: Sequence[CacheCase], served: Sequence[Served], doubtful: bool
) -> Outcome:
    verdicts = [each.verdict(case, doubtful=doubtful) for case, each in zip(asked, served, strict=True)]
    counts = Counter(verdicts)
    hundred = 100 / len(asked)
    wrong_of = Counter(
        case.kind for case, verdict in zip(asked, verdicts, strict=True) if verdict is Verdict.WRONG
    )
    of = Counter(case.kind for case in asked)
    return Outcome(
        name,
        held,
        doubtful,
        len(asked),
        hundred * counts[Verdict.RIGHT],
        hundred * counts[Verdict.WRONG],
        hundred * counts[Verdict.MISSED],
        {kind.value: 100 * wrong_of[kind] / of[kind] if of[kind] else 0.0 for kind in CaseKind},
    )


def print_report(report: PeerCacheReport, console: Console) -> None:
    table = Table(title="per 100 questions, of which some have no answer in the cache", title_justify="left")
    heads = ("held", "cache", "served", "questions", "right", "wrong", "missed", "wrong of each kind")
    for head in heads:
        table.add_column(head, justify="right" if head in ("right", "wrong", "missed") else "left")
    for each in report.outcomes:
        kinds = ", ".join(f"{kind} {share:.0f}" for kind, share in each.wrong_of_kind.items())
        served = "doubtful too" if each.doubtful else "sure"
        figures = (f"{each.right:.1f}", f"{each.wrong:.1f}", f"{each.missed:.1f}")
        table.add_row(str(each.held), each.cache, served, str(each.questions), *figures, kinds)
    console.print(table)
    times = Table(title="a look-up, the query's vector made already", title_justify="left")
    for head in ("held", "cache", "p50 ms"):
        times.add_column(head, justify="left" if head == "cache" else "right")
    for timed in sorted(report.times, key=lambda each: (each.held, each.cache)):
        times.add_row(str(timed.held), timed.cache, f"{timed.p50_ms:.3f}")
    console.print(times)
