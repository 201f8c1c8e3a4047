"""What an index is held to, and whether figures meet it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from precall.bench.index_run import RECALL, IndexFigures
from precall.bench.results import Measurement

ABOVE_FAISS_MS: Final = 0.15
MILLION_MS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target of one size, and whether it was met."""

    says: str
    kept: bool


def verdicts(figures: IndexFigures) -> list[Verdict]:
    """The targets that these figures are held to."""
    above = figures.beside.search.p50_ms - figures.beside.bare.p50_ms
    worst = min(figures.recall, figures.recall_filtered, figures.recall_after_deleting_half)
    found = [
        Verdict(f"recall@10 {worst:.4f} >= {RECALL}, filtered and after deleting half too", worst >= RECALL),
        Verdict(
            f"search p50 {above:+.3f} ms beside bare {figures.beside.bare_says}, at most +{ABOVE_FAISS_MS}",
            above <= ABOVE_FAISS_MS,
        ),
    ]
    if figures.size >= 1_000_000:
        p50 = figures.beside.search.p50_ms
        found.append(Verdict(f"search p50 {p50:.2f} ms < {MILLION_MS}", p50 < MILLION_MS))
    return found


def peer_verdicts(rows: Sequence[Measurement]) -> list[Verdict]:
    """Faster than each peer, by what `measure_peers` has told."""
    return [
        Verdict(f"{row.case}: {row.ratio:.2f} times as fast as {row.peer}", row.ratio > 1)
        for row in rows
        if row.ratio is not None
    ]
