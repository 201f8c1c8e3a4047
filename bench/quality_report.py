"""The quality table: a row a case of a set, a column a method; to be read, and as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from precall.bench.quality_measures import Interval, QueryMeasures, interval
from precall.bench.quality_sets import ALL
from precall.bench.results import Measurement

FAST: Final = "FAST"
ACCURATE: Final = "ACCURATE"
PEERS: Final = ("BM25", "dense", "RRF")
METRICS: Final = ("recall@10", "recall@50", "nDCG@10")


@dataclass(frozen=True, slots=True)
class Target:
    """The least that a method's mean must be on all queries of a set."""

    set_name: str
    method: str
    metric: str
    least: float


TARGETS: Final = (
    Target("locomo-held-out", FAST, "recall@10", 0.72),
    Target("locomo-held-out", ACCURATE, "recall@10", 0.76),
    Target("scifact", FAST, "nDCG@10", 0.70),
    Target("scifact", ACCURATE, "nDCG@10", 0.72),
)


@dataclass(frozen=True, slots=True)
class CaseReport:
    """One row of the table: the queries of one case of one set, and what each method makes of them."""

    set_name: str
    case: str
    methods: Mapping[str, QueryMeasures]

    @property
    def queries(self) -> int:
        return len(self.methods[FAST].recall_10)

    @property
    def best_peer(self) -> str:
        """The peer with the highest nDCG@10."""
        return max(PEERS, key=lambda name: self.mean(name, "nDCG@10"))

    def mean(self, method: str, metric: str) -> float:
        return float(self.methods[method].of(metric).mean())

    def gain(self, method: str, over: str) -> Interval:
        """The one's nDCG@10 above the other's, query by query."""
        return interval(self.methods[method].ndcg_10 - self.methods[over].ndcg_10)

    @property
    def gains(self) -> dict[str, Interval]:
        """What is compared -> by how much: FAST with the best peer, ACCURATE with FAST."""
        gains = {f"{FAST} - {self.best_peer}": self.gain(FAST, self.best_peer)}
        if ACCURATE in self.methods:
            gains[f"{ACCURATE} - {FAST}"] = self.gain(ACCURATE, FAST)
        return gains

    def measurements(self) -> list[Measurement]:
        case = self.set_name if self.case == ALL else f"{self.set_name} {self.case}"
        return [
            Measurement("quality", case, f"{method} {metric}", self.mean(method, metric), "share")
            for method in self.methods
            for metric in METRICS
        ]


@dataclass(frozen=True, slots=True)
class QualityReport:
    """``conditions``: what the figures depend on, name -> value, such as what was fitted on what."""

    conditions: Mapping[str, str]
    cases: Sequence[CaseReport]

    @property
    def missed(self) -> list[Target]:
        """Targets of what was measured that were not met."""
        means = {target: self._mean(target) for target in TARGETS}
        return [target for target, mean in means.items() if mean is not None and mean < target.least]

    def _mean(self, target: Target) -> float | None:
        for each in self.cases:
            if (each.set_name, each.case) == (target.set_name, ALL) and target.method in each.methods:
                return each.mean(target.method, target.metric)
        return None

    def measurements(self) -> list[Measurement]:
        return [row for each in self.cases for row in each.measurements()]

    def print(self) -> None:
        """The conditions, a block a measure, and the targets."""
        for name, value in self.conditions.items():
            print(f"{name}: {value}")
        for metric in METRICS:
            self._print_block(metric)
        print()
        for target in TARGETS:
            mean = self._mean(target)
            if mean is not None:
                verdict = "kept" if mean >= target.least else "MISSED"
                what = f"{target.set_name} {target.method} {target.metric}"
                print(f"{what:<36} {mean:.3f}, at least {target.least:.2f}: {verdict}")

    def _print_block(self, metric: str) -> None:
        methods = list(self.cases[0].methods)
        with_gains = metric == "nDCG@10"
        head = "  ".join(f"{name:>8}" for name in methods)
        print(f"\n{metric:<30} queries  {head}{'  differences (95 %)' if with_gains else ''}")
        for each in self.cases:
            row = "  ".join(f"{each.mean(method, metric):8.3f}" for method in methods)
            if with_gains:
                row += "".join(
                    f"  {compared} {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
                    for compared, gain in each.gains.items()
                )
            label = each.set_name if each.case == ALL else f"  {each.case}"
            print(f"{label:<30} {each.queries:>7}  {row}")

    def write(self, path: Path) -> None:
        """As JSON. Raises OSError."""
        document: dict[str, Any] = {
            "conditions": dict(self.conditions),
            "cases": [
                {
                    "set": each.set_name,
                    "case": each.case,
                    "queries": each.queries,
                    "methods": {
                        method: {metric: each.mean(method, metric) for metric in METRICS}
                        for method in each.methods
                    },
                    "nDCG@10 differences": {name: asdict(gain) for name, gain in each.gains.items()},
                }
                for each in self.cases
            ],
            "targets": [asdict(target) | {"mean": self._mean(target)} for target in TARGETS],
        }
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
