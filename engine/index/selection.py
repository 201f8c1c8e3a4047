"""Which rows may be among the best, judged from approximate cosines: none of the best is ever left out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.codes import ApproximateCosines
from precall.scoring import fusion
from precall.scoring.ranking import Candidates, RankingWeights, score, servable

_FIRST_SHARE: Final = 20
_FIRST_LEAST: Final = 256
_GROWTH: Final = 4
_CHEAP_ROWS: Final = 2_000
"""Rows that are rescored without asking whether a closer look at the codes would make them fewer."""

_ROUNDING: Final = np.float32(1e-5)
"""Over what float32 loses in a total, whose parts add up to about 1."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The question that a selection answers. ``include_upcoming``: see `ranking.servable`."""

    weights: RankingWeights
    now: float
    limit: int
    include_upcoming: bool = False


def select(
    table: Candidates, nearest: Callable[[int], ApproximateCosines], selection: Selection
) -> NDArray[np.int64]:
    """Rows of ``table`` that hold its best ``limit`` for certain, and as few others as is cheap to tell.

    ``table.dense`` is not looked at: ``nearest(n)`` gives the n best cosines by codes, each with the most
    that it may be wrong by. Of a row outside those, the cosine lies between 0 (where relevance cuts it) and
    the n-th best plus the row's error. A row is left out only if ``limit`` others are surely better.
    """
    rows = np.flatnonzero(servable(table, selection.now, include_upcoming=selection.include_upcoming))
    if len(rows) <= selection.limit:
        return rows
    weights = selection.weights
    without_dense = score(table, np.zeros(len(table.ids), np.float32), weights, now=selection.now).total
    dense_weight = np.float32(weights.relevance * (1 - fusion.KEYWORD_SHARE))
    count = max(_FIRST_LEAST, selection.limit, len(table.ids) // _FIRST_SHARE)
    while True:
        cosines = nearest(count)
        least, most = cosines.bounds()
        least, most = without_dense + dense_weight * least, without_dense + dense_weight * most
        bar = np.partition(least[rows], len(rows) - selection.limit)[len(rows) - selection.limit]
        chosen: NDArray[np.int64] = rows[most[rows] >= bar - _ROUNDING]
        if len(chosen) <= max(_CHEAP_ROWS, selection.limit) or count >= len(table.ids):
            return chosen
        count *= _GROWTH
