"""How good FAST search is, beside BM25, the dense leg and plain rank fusion, on public sets.

python -P -m precall.bench.quality --data ../shared/data

Recall@10, recall@50 and nDCG@10 of each set and category. ``keyword`` is the keyword leg of FAST alone. The
constants of FAST were fitted on LoCoMo conversations 26 and 30, which are reported apart from the others.
"""

import argparse
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.fusion import FITTED_ON
from precall.bench.locomo import load_conversations
from precall.bench.quality_accurate import AccurateMethod
from precall.bench.quality_measures import Interval, QueryMeasures, interval, judge
from precall.bench.quality_methods import METHODS, EncodedSet, Methods
from precall.bench.quality_sets import ALL, LOADERS, LabelledSet, conversation_set
from precall.bench.quality_vectors import VectorCache
from precall.bench.results import Measurement, append_results
from precall.engine.encoding.encoder import TextRole

OURS: Final = "FAST"
PEERS: Final = ("BM25", "dense", "RRF")


@dataclass(frozen=True, slots=True)
class CaseReport:
    """One row of the table: the queries of one case of one set, and what each method makes of them."""

    set_name: str
    case: str
    methods: Mapping[str, QueryMeasures]

    @property
    def queries(self) -> int:
        return len(self.methods[OURS].recall_10)

    @property
    def best_peer(self) -> str:
        """The peer with the highest nDCG@10."""
        return max(PEERS, key=lambda name: float(self.methods[name].ndcg_10.mean()))

    @property
    def gain(self) -> Interval:
        """FAST's nDCG@10 above the best peer's, query by query."""
        return interval(self.methods[OURS].ndcg_10 - self.methods[self.best_peer].ndcg_10)

    def measurements(self) -> list[Measurement]:
        case = self.set_name if self.case == ALL else f"{self.set_name} {self.case}"
        return [
            Measurement("quality", case, f"{method} {metric}", float(values.mean()), "share")
            for method, measures in self.methods.items()
            for metric, values in _columns(measures).items()
        ]


def load_sets(data: Path, names: Sequence[str]) -> list[LabelledSet]:
    """The named sets of a folder; LoCoMo's fitted and held-out conversations under two names."""
    sets: list[LabelledSet] = []
    for name in names:
        if name == "locomo":
            sets += [
                replace(
                    conversation_set(conversation),
                    name="locomo-fitted" if conversation.id in FITTED_ON else "locomo-held-out",
                )
                for conversation in load_conversations(data / name)
            ]
        else:
            sets += LOADERS[name](data / name)
    return sets


def report(sets: Iterable[LabelledSet], vectors: VectorCache, methods: Methods = METHODS) -> list[CaseReport]:
    """A row for all queries of each name, and one a case where a set has several."""
    parts: dict[str, list[tuple[NDArray[np.str_], dict[str, QueryMeasures]]]] = {}
    for labelled in sets:
        cases = np.array([query.case for query in labelled.queries])
        parts.setdefault(labelled.name, []).append((cases, measure(labelled, vectors, methods)))
    reports = []
    for name, measured in parts.items():
        cases = np.concatenate([cases for cases, _ in measured])
        measures = {
            method: QueryMeasures.concatenate([of_set[method] for _, of_set in measured])
            for method in methods
        }
        reports.append(CaseReport(name, ALL, measures))
        reports += [
            CaseReport(name, case, {method: each.where(cases == case) for method, each in measures.items()})
            for case in sorted(set(cases.tolist()) - {ALL})
        ]
    return reports


def measure(labelled: LabelledSet, vectors: VectorCache, methods: Methods) -> dict[str, QueryMeasures]:
    """Method -> its measures on one set."""
    encoded = EncodedSet(
        labelled,
        queries=vectors.vectors([query.text for query in labelled.queries], TextRole.QUERY),
        memories=vectors.vectors(labelled.memories, TextRole.DOCUMENT),
        scripts=vectors.scripts,
    )
    relevant = [query.relevant for query in labelled.queries]
    return {name: judge(score(encoded), relevant) for name, score in methods.items()}


def print_reports(reports: Sequence[CaseReport]) -> None:
    """One block a measure: a row a case, a column a method, and how far FAST is above the best peer."""
    for metric in ("recall@10", "recall@50", "nDCG@10"):
        head = "  ".join(f"{name:>8}" for name in reports[0].methods)
        extra = "  FAST - best peer (95 %)" if metric == "nDCG@10" else ""
        print(f"\n{metric:<30} queries  {head}{extra}")
        for each in reports:
            values = (_columns(measures)[metric].mean() for measures in each.methods.values())
            row = "  ".join(f"{value:8.3f}" for value in values)
            if extra:
                gain = each.gain
                row += f"  {each.best_peer}: {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
            label = each.set_name if each.case == ALL else f"  {each.case}"
            print(f"{label:<30} {each.queries:>7}  {row}")


def _columns(measures: QueryMeasures) -> dict[str, NDArray[np.float64]]:
    return {
        "recall@10": measures.recall_10, "recall@50": measures.recall_50, "nDCG@10": measures.ndcg_10,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds a folder a set")
    parser.add_argument("--sets", nargs="+", choices=tuple(LOADERS), default=tuple(LOADERS), metavar="SET")
    parser.add_argument(
        "--vectors",
        type=Path,
        default=Path(tempfile.gettempdir()) / "precall-quality",
        help="where vectors are kept between runs (default: %(default)s)",
    )
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    parser.add_argument(
        "--accurate", action="store_true", help="add a column for ACCURATE search on the small reranker: slow"
    )
    arguments = parser.parse_args()
    from precall.engine.encoding.loading import load_default_encoder

    vectors = VectorCache(load_default_encoder().encoder, arguments.vectors)
    methods: Methods = METHODS
    if arguments.accurate:
        from precall.engine.encoding.late_interaction import LateInteractionReranker

        methods = {**METHODS, "ACCURATE": AccurateMethod(LateInteractionReranker())}
    reports = report(load_sets(arguments.data, arguments.sets), vectors, methods)
    print_reports(reports)
    if arguments.csv:
        append_results(arguments.csv, [row for each in reports for row in each.measurements()])


if __name__ == "__main__":
    main()
