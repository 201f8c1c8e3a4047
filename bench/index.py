"""`precall bench index`: what an index costs to fill, to search and to keep, beside bare FAISS and beside its
peers.

Everything runs in one process on one core, contenders in turns, so that a noisy moment hits all of them. A
search is precall's whole in-process search: dense and keyword evidence, importance and recency, exact totals,
ten memories. The bare index gives ids by cosine, approximately, from codes of the same kind and as many of
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.index_peers import measure_peers
from precall.bench.index_run import IndexFigures, IndexRun, run_index
from precall.bench.results import Measurement, append_results, print_measurements

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
DIMENSIONS: Final = (384, 1024)
ONLY_IN: Final = {1_000_000: 384}
"""A million vectors of the other dimension do not fit into 4 GiB."""

PEER_SIZES: Final = (10_000, 100_000)
RECALL: Final = 0.99
ABOVE_FAISS_MS: Final = 0.15
MILLION_MS: Final = 3.0


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
                figures = run_index(size, dimension, bench.run)
                rows = measurements_of(figures)
                print_measurements(rows)
                measurements += rows
                for verdict in verdicts(figures):
                    print(f"         {verdict.says}: {'kept' if verdict.kept else 'MISSED'}")
                    kept = kept and verdict.kept
    if bench.peers_python is not None:
        for size in bench.peer_sizes:
            rows = measure_peers(size, bench.dimensions[0], bench.peers_python)
            print_measurements(rows)
            measurements += rows
    if csv_path is not None:
        append_results(csv_path, measurements)
    return kept


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target of one size, and whether it was met."""

    says: str
    kept: bool


def verdicts(figures: IndexFigures) -> list[Verdict]:
    """The targets that these figures are held to."""
    above = _percentile(figures.search, 50) - _percentile(figures.faiss, 50)
    worst = min(figures.recall, figures.recall_filtered, figures.recall_after_deleting_half)
    found = [
        Verdict(f"recall@10 {worst:.4f} >= {RECALL}, filtered and after deleting half too", worst >= RECALL),
        Verdict(
            f"search p50 {above:+.3f} ms beside bare {figures.faiss_says}, at most +{ABOVE_FAISS_MS}",
            above <= ABOVE_FAISS_MS,
        ),
    ]
    if figures.size >= 1_000_000:
        p50 = _percentile(figures.search, 50)
        found.append(Verdict(f"search p50 {p50:.2f} ms < {MILLION_MS}", p50 < MILLION_MS))
    return found


def measurements_of(figures: IndexFigures) -> list[Measurement]:
    case = f"{figures.size} x {figures.dimension} {figures.kind}"

    def row(metric: str, value: float, unit: str, peer: str = "", ratio: float | None = None) -> Measurement:
        return Measurement("index", case, metric, value, unit, peer, ratio)

    p50, p50_faiss = _percentile(figures.search, 50), _percentile(figures.faiss, 50)
    rows = [
        row("search p50", p50, "ms", f"bare {figures.faiss_says}", p50_faiss / p50),
        row("search p99", _percentile(figures.search, 99), "ms"),
        row("bare FAISS p50", p50_faiss, "ms"),
        row("bare FAISS p99", _percentile(figures.faiss, 99), "ms"),
        row("search, 3 words p50", _percentile(figures.search_with_words, 50), "ms"),
        row("search, 3 words p99", _percentile(figures.search_with_words, 99), "ms"),
        row("recall@10", figures.recall, "share", "exact"),
        row("recall@10 filtered", figures.recall_filtered, "share", "exact"),
        row("recall@10, half deleted", figures.recall_after_deleting_half, "share", "exact"),
        row("added a second", figures.added_per_second, "memories"),
        row("lists made after", figures.settle_seconds, "s"),
        row("resident a memory", figures.bytes_per_memory, "bytes"),
    ]
    if len(figures.delete_seconds):
        rows.append(row("delete p50", _percentile(figures.delete_seconds, 50), "ms"))
    return rows


def _percentile(seconds: NDArray[np.float64], share: float) -> float:
    return float(np.percentile(seconds, share)) * 1e3
