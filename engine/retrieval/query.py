"""A question ready to be searched for, and what a search found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.memory import Memory
from precall.scoring.ranking import Ranked, RankingWeights


class Leg(Enum):
    """A list of candidates that a result stood on."""

    DENSE = "dense"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True)
class Query:
    """``vector``: float32 unit vector, ``(dimension,)``. ``now``: Unix seconds that recency counts from.

    ``include_upcoming``: find also what may be served only later than ``now``.
    """

    vector: NDArray[np.float32]
    terms: Sequence[str]
    now: float
    limit: int = 10
    weights: RankingWeights = field(default_factory=RankingWeights)
    include_upcoming: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: the memory, the parts of its score, and the legs that found it."""

    memory: Memory
    score: Ranked
    legs: frozenset[Leg]
