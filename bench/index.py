"""`precall bench index`: what an index costs to fill, to search and to keep, beside bare FAISS and beside its
peers.

Everything runs in one process on one core, contenders in turns, so that a noisy moment hits all of them. A
search is precall's whole in-process search: dense and keyword evidence, importance and recency, exact totals,
ten memories. What the bare and the refined FAISS index are is said in `precall.bench.index_bare`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from precall.bench.index_corpus import DrawnVectors
from precall.bench.index_peers import measure_peers
from precall.bench.index_run import IndexFigures, IndexRun, run_index
from precall.bench.index_targets import Verdict, peer_verdicts, verdicts
from precall.bench.results import Measurement, append_results, print_measurements

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
DIMENSIONS: Final = (384, 1024)
ONLY_IN: Final = {1_000_000: 384}
"""A million vectors of the other dimension do not fit into 4 GiB."""

PEER_SIZES: Final = (10_000, 100_000)


@dataclass(frozen=True, slots=True)
class IndexBench:
    """What to measure. ``peers_python``: of an environment that holds the peers, or None to leave them
    out.
    """

    sizes: Sequence[int] = SIZES
    dimensions: Sequence[int] = DIMENSIONS
    run: IndexRun = field(default_factory=IndexRun)
    peers_python: Path | None = None
    peer_sizes: Sequence[int] = PEER_SIZES


QUICK: Final = IndexBench((10, 1_000, 5_000), (384,), IndexRun(queries=20, rounds=3, recall_queries=20))


def main(bench: IndexBench, csv_path: Path | None = None) -> bool:
    """Measure, print, append to ``csv_path``; False when a target is missed. Raises PeersFailed."""
    measurements: list[Measurement] = []
    kept = True
    for dimension in bench.dimensions:
        for size in bench.sizes:
            if ONLY_IN.get(size, dimension) == dimension:
                figures = run_index(DrawnVectors(dimension), size, bench.run)
                measurements += (rows := measurements_of(figures))
                kept = report(rows, verdicts(figures)) and kept
    if bench.peers_python is not None:
        source = DrawnVectors(bench.dimensions[0])
        for size in bench.peer_sizes:
            measurements += (rows := measure_peers(source, size, bench.peers_python))
            kept = report(rows, peer_verdicts(rows)) and kept
    if csv_path is not None:
        append_results(csv_path, measurements)
    return kept


def report(rows: Sequence[Measurement], found: Sequence[Verdict]) -> bool:
    """Print figures and what they say of the targets; whether all were met."""
    print_measurements(rows)
    for verdict in found:
        print(f"         {verdict.says}: {'kept' if verdict.kept else 'MISSED'}")
    return all(verdict.kept for verdict in found)


def measurements_of(figures: IndexFigures) -> list[Measurement]:
    case = f"{figures.size} x {figures.dimension} {figures.kind}, {figures.vectors}"

    def row(metric: str, value: float, unit: str, peer: str = "", ratio: float | None = None) -> Measurement:
        return Measurement("index", case, metric, value, unit, peer, ratio)

    beside = figures.beside
    ours, words, bare, refined = beside.search, beside.search_with_words, beside.bare, beside.refined
    rows = [
        row("search p50", ours.p50_ms, "ms", f"bare FAISS {beside.bare_says}", bare.p50_ms / ours.p50_ms),
        row("search p50", ours.p50_ms, "ms", f"FAISS {beside.refined_says}", refined.p50_ms / ours.p50_ms),
        row("search p99", ours.p99_ms, "ms"),
        row("search fastest", ours.fastest_ms, "ms"),
        row("search processor p50", ours.processor_ms, "ms"),
        row("search, 3 words p50", words.p50_ms, "ms"),
        row("search, 3 words p99", words.p99_ms, "ms"),
        row("search, 3 words processor p50", words.processor_ms, "ms"),
    ]
    for name, timing, recall in (
        ("bare FAISS", bare, beside.recall_bare),
        ("refined FAISS", refined, beside.recall_refined),
    ):
        rows += [
            row(f"{name} p50", timing.p50_ms, "ms"),
            row(f"{name} p99", timing.p99_ms, "ms"),
            row(f"{name} fastest", timing.fastest_ms, "ms"),
            row(f"{name} processor p50", timing.processor_ms, "ms"),
            row(f"{name} recall@10", recall, "share", "exact by cosine"),
        ]
    rows += [
        row("recall@10", figures.recall, "share", "exact"),
        row("recall@10 filtered", figures.recall_filtered, "share", "exact"),
        row("recall@10, half deleted", figures.recall_after_deleting_half, "share", "exact"),
        row("added a second", figures.added_per_second, "memories"),
        row("lists made after", figures.settle_seconds, "s"),
        row("resident a memory", figures.bytes_per_memory, "bytes"),
    ]
    if len(figures.delete_seconds):
        rows.append(row("delete p50", float(np.median(figures.delete_seconds)) * 1e3, "ms"))
    return rows
