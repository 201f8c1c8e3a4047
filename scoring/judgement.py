"""Whether a cache that is not complete may answer a read: by proof, else by a calibrated judgement."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring import evidence
from precall.scoring.calibration import Calibration
from precall.scoring.coverage import Coverage, CoveredRead, Decision
from precall.scoring.evidence import SERVED, TOP, Nearness
from precall.scoring.ranking import Ranked

NEAR_DISTANCE: Final = math.sqrt(0.5)
"""Where there is no calibration, a read farther than this from every pushed query (a cosine of three
quarters) is not even raced for. Chosen, not measured."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``proven``: the decision is SURE by proof. ``confidence``: the calibration's, in log-odds, if asked."""

    decision: Decision
    proven: bool = False
    confidence: float | None = None

    @property
    def in_doubt(self) -> "Judgement":
        """The same, where something speaks against the answer that only a proof outweighs."""
        if self.proven or self.decision is not Decision.SURE:
            return self
        return Judgement(Decision.BORDERLINE, False, self.confidence)


MISS: Final = Judgement(Decision.MISS)
_PROVEN: Final = Judgement(Decision.SURE, proven=True)
_BORDERLINE: Final = Judgement(Decision.BORDERLINE)


def judge(
    read: CoveredRead,
    best: Sequence[Ranked],
    coverages: Sequence[Coverage],
    queries: NDArray[np.float32],
    query_totals: Callable[[int], NDArray[np.float32]],
    calibration: Calibration | None,
    *,
    limit: int,
) -> Judgement:
    """Decide whether the best ``limit`` held memories may be served.

    ``best``: the best held for this read, best first, at least `SERVED` and one more than ``limit``, unless
    fewer are held. ``queries``: the coverages' vectors, a row each. ``query_totals``: place of a coverage ->
    totals of every held memory for its query, by the rows that ``best`` names. ``calibration``: of the model
    that made the vectors; None: only what is proven is SURE, and so it is for an approximate vector.

    What is proven needs no calibration, and a lower floor never makes the cache less sure.
    """
    if not coverages:
        return MISS
    if any(coverage.floor <= 0.0 for coverage in coverages):  # nothing at all was left out
        return _PROVEN if _proves(read, best, limit, -math.inf) else _BORDERLINE
    nearness = Nearness.of(read.vector, queries)
    bound = evidence.lowest_bound(read, coverages, nearness)
    if _proves(read, best, limit, bound):
        return _PROVEN
    near = _BORDERLINE if best and nearness.distance <= _near_distance(read) else MISS
    if calibration is None or read.approximation is not None or len(best) < max(limit, TOP):
        return near
    query = coverages[nearness.nearest]
    gathered = evidence.gather(
        read, best, query, nearness, bound=bound, query_totals=query_totals(nearness.nearest)
    )
    part = calibration.continued if evidence.continues(read, query) else calibration.other
    confidence = part.confidence(gathered)
    if confidence < part.borderline:
        return Judgement(Decision.MISS, confidence=confidence)
    judgement = Judgement(
        Decision.SURE if confidence >= part.sure and limit <= SERVED else Decision.BORDERLINE,
        confidence=confidence,
    )
    return judgement.in_doubt if read.negated and not query.negated else judgement


def _proves(read: CoveredRead, best: Sequence[Ranked], limit: int, bound: float) -> bool:
    """Whether what to serve stands although there may be memories of a total up to ``bound``.

    An approximate vector has totals of its own for all memories, held or not, and the bound is one of them:
    what is left to doubt is how far its order may be off.
    """
    if read.approximation is not None:
        return read.approximation.settles(best, read.weights, limit=limit, unheld=bound)
    return bound == -math.inf or (len(best) >= limit and best[limit - 1].total >= bound)


def _near_distance(read: CoveredRead) -> float:
    """An error has no part in the way from query to read: they add up as the sides of a right angle do."""
    error = read.approximation.distance if read.approximation is not None else 0.0
    return math.hypot(NEAR_DISTANCE, error) if math.isfinite(error) else NEAR_DISTANCE
