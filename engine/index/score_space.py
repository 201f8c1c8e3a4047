"""Vectors whose inner product with a query's is a memory's total, save what keywords add.

    total = w_d * cosine + w_i * importance + w_r * 2 ** ((event - now) / h) + keywords

The third part factors into 2 ** ((event - origin) / h), which is the memory's alone, and 2 ** ((origin - now)
/ h), which is the query's. So two numbers more in each vector let FAISS choose by total instead of by cosine,
whose best are seldom the best by total once importances and ages differ.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import RankingWeights
from precall.scoring.vectors import widened

HALF_LIFE: Final = RankingWeights().half_life_seconds
HEADROOM: Final = 2.0
"""The largest freshness with a code: events up to one half-life after the origin have theirs."""

LANES: Final = 16
SPARE_LANES: Final = 8
"""FAISS takes 8 dimensions at a time, and is slow where they do not divide a vector's length. Where 16 do, it
multiplies 8-bit codes with a query rounded to 8 bits. So a row is 8 longer than a multiple of 16.
"""

_FARTHEST_ORIGIN: Final = 3.0
"""Half-lives before the origin from which a question may be asked: its coding error grows as the power of 2,
and at 3 adds 0.03 times the weight of recency to the slack.
"""

_FRESHEST: Final = 8.0
"""Half-lives after the origin from which on all count the same: any over log2(`HEADROOM`) would do, as none
has a code, and the power stays finite.
"""

_STEPS: Final = 509
"""Codes are off by half a step of 1 / 255 at most, which is 1 / 510; one less, for float32."""

_ROUNDING: Final = 1e-5
"""Over what FAISS loses when it sums some hundred products in float32 (`tests/index/test_bounds.py`)."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """A query in the score space: ``vector``, float32 of shape ``(width,)``, and how far to trust its
    products.

    For a row whose code is within the space's tolerance, ``product`` is what the codes give:

        ``product - slack <= w_d * cosine + w_i * importance + recency part <= product + slack``

    where the recency part is left out if ``aged`` is False. An event after ``now`` counts for more in the
    product than it does in the formula.
    """

    vector: NDArray[np.float32]
    slack: float
    aged: bool


@dataclass(frozen=True, slots=True)
class ScoreSpace:
    """``dimension``: of the unit vectors. ``origin``: Unix seconds of an event whose freshness is 1."""

    dimension: int
    origin: float

    @property
    def width(self) -> int:
        return -(-(self.dimension + 2 - SPARE_LANES) // LANES) * LANES + SPARE_LANES

    def rows(
        self,
        vectors: NDArray[np.floating],
        importance: NDArray[np.float32],
        event_seconds: NDArray[np.float64],
    ) -> NDArray[np.float32]:
        """Rows of the space, float32, shape ``(n, width)``; ``vectors`` are unit vectors, shape ``(n,
        dimension)``.
        """
        lifted = np.zeros((len(vectors), self.width), np.float32)
        lifted[:, : self.dimension] = widened(vectors)
        lifted[:, self.dimension] = importance
        lifted[:, self.dimension + 1] = self.freshness(event_seconds)
        return lifted

    def rows_of(self, held: MemorySet, chosen: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of the space for these slots of a table, float32, shape ``(n, width)``."""
        return self.rows(held.vectors[chosen], held.importance[chosen], held.event_seconds[chosen])

    def freshness(self, event_seconds: NDArray[np.float64]) -> NDArray[np.float32]:
        """``2 ** ((event - origin) / HALF_LIFE)``, cut where it is far beyond what has a code."""
        ages = np.minimum((event_seconds - self.origin) / HALF_LIFE, _FRESHEST)
        return np.exp2(ages).astype(np.float32)

    def query(
        self, vector: NDArray[np.float32], weights: RankingWeights, now: float, tolerance: float
    ) -> Lifted:
        """``tolerance``: the most that a row's unit vector lies from its code's."""
        dense = weights.relevance * (1 - weights.fusion.share)
        aged = weights.half_life_seconds == HALF_LIFE and self.origin - now <= _FARTHEST_ORIGIN * HALF_LIFE
        recency = weights.recency * 2.0 ** ((self.origin - now) / HALF_LIFE) if aged else 0.0
        lifted = np.zeros(self.width, np.float32)
        lifted[: self.dimension] = vector
        lifted[: self.dimension] *= np.float32(dense)
        lifted[self.dimension] = weights.importance
        lifted[self.dimension + 1] = recency
        # By Cauchy and Schwarz for the vector; half a code's step for the two numbers beside it.
        slack = dense * tolerance + (weights.importance + recency * HEADROOM) / _STEPS
        return Lifted(lifted, slack + _ROUNDING, aged)
