"""`precall bench quality`: how good searches are, beside BM25, the dense leg and plain rank fusion.

Recall@10, recall@50 and nDCG@10 of each public set and category. ``keyword`` is the keyword leg of FAST
alone; ACCURATE is what an engine answers with the small reranker.
"""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.machine import describe_machine
from precall.bench.quality_measures import QueryMeasures, judge
from precall.bench.quality_methods import METHODS, EncodedSet, Methods
from precall.bench.quality_report import ACCURATE, CaseReport, QualityReport
from precall.bench.quality_search import AccurateMethod
from precall.bench.quality_sets import ALL, FITTED_ON, LOADERS, LabelledSet, load_sets
from precall.bench.quality_vectors import VectorCache
from precall.bench.results import append_results, current_commit
from precall.engine.encoding.encoder import TextRole
from precall.engine.retrieval.accurate import DEFAULT_CANDIDATES

SET_NAMES: Final = tuple(LOADERS)
VECTORS_FOLDER: Final = Path(tempfile.gettempdir()) / "precall-quality"


@dataclass(frozen=True, slots=True)
class QualityRun:
    """What to measure. ``data``: a folder that holds a folder a set. ``accurate``: also with the small
    reranker, which takes minutes for a conversation or a thousand abstracts. ``most_queries``: of each rung
    at most so many, evenly spaced; None for all. ``vectors``: where vectors are kept between runs.
    ``threads``: of each model; None for as many as fit.
    """

    data: Path
    sets: tuple[str, ...] = SET_NAMES
    accurate: bool = False
    most_queries: int | None = None
    vectors: Path = VECTORS_FOLDER
    threads: int | None = None


def main(run: QualityRun, *, json_path: Path | None = None, csv_path: Path | None = None) -> QualityReport:
    """Measure, print, write.

    Raises LocomoFormatError, QualitySetError, OSError, and what the models raise that cannot be loaded.
    """
    from precall.engine.encoding.loading import load_default_encoder

    sets = load_sets(run.data, run.sets, run.most_queries)
    vectors = VectorCache(load_default_encoder(threads=run.threads).encoder, run.vectors)
    methods: Methods = METHODS
    conditions = {
        "encoder": vectors.encoder.card.name,
        "fitted on": f"LoCoMo conversations {', '.join(sorted(FITTED_ON))}; shares for scripts that the "
        "encoder does not read chosen on XQuAD, MADial and hinglish, whose figures are not held out from it",
    }
    if run.accurate:
        from precall.engine.encoding.late_interaction import LateInteractionReranker

        reranker = LateInteractionReranker(threads=run.threads)
        methods = {**METHODS, ACCURATE: AccurateMethod(reranker, vectors)}
        conditions |= {
            "reranker": f"{reranker.card.name}, {DEFAULT_CANDIDATES} candidates a search",
            "its share chosen on": "the same conversations and every sixth of SciFact's claims among 300 "
            "abstracts: SciFact's figures are not held out from it",
        }
    conditions |= {"commit": current_commit()} | describe_machine()
    report = QualityReport(conditions, measure_cases(sets, vectors, methods))
    report.print()
    if json_path is not None:
        report.write(json_path)
    if csv_path is not None:
        append_results(csv_path, report.measurements())
    return report


def measure_cases(
    sets: Iterable[LabelledSet], vectors: VectorCache, methods: Methods = METHODS
) -> list[CaseReport]:
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
    encoded = encode(labelled, vectors)
    relevant = [query.relevant for query in labelled.queries]
    return {name: judge(score(encoded), relevant) for name, score in methods.items()}


def encode(labelled: LabelledSet, vectors: VectorCache) -> EncodedSet:
    return EncodedSet(
        labelled,
        queries=vectors.vectors([query.text for query in labelled.queries], TextRole.QUERY),
        memories=vectors.vectors(labelled.memories, TextRole.DOCUMENT),
        scripts=vectors.encoder.card.scripts,
    )
