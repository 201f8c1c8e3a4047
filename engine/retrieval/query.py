"""A question ready to be searched for, and what a search found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.memory import Memory
from precall.scoring.fusion import KEYWORD_SHARE, Fusion
from precall.scoring.ranking import Ranked, RankingWeights


class Leg(Enum):
    """A list of candidates that a result stood on."""

    DENSE = "dense"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True)
class Query:
    """``vector``: float32 unit vector, ``(dimension,)``. ``now``: Unix seconds that recency counts from.

    ``include_upcoming``: find also what may be served only later than ``now``. ``filter``: what a result has
    to be beside that; None asks for nothing. ``keyword_share``: what `fusion.keyword_share` gives for the
    query and the model whose vector it has.
    """

    vector: NDArray[np.float32]
    terms: Sequence[str]
    now: float
    limit: int = 10
    weights: RankingWeights = field(default_factory=RankingWeights)
    include_upcoming: bool = False
    filter: MemoryFilter | None = None
    keyword_share: float = KEYWORD_SHARE

    @property
    def fused_weights(self) -> RankingWeights:
        """What totals are weighed by: ``weights``, with the two legs put together as this query has it."""
        return self.weights.fused(Fusion.of(self.terms, self.keyword_share))


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: the memory, the parts of its score, and the legs that found it.

    ``rerank``: the reranker's score, in [0, 1], which is then a part of the relevance; None in FAST search.
    """

    memory: Memory
    score: Ranked
    legs: frozenset[Leg]
    rerank: float | None = None
