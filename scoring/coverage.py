"""What a cache can prove about the memories it does not hold.

The server pushed the best memories for a query q and said: nothing you do not hold has a total above
``floor`` for q. How high can such a memory x score for the read r? Its importance and recency are the same
for both; only its relevance differs:

    dense    |r.x - q.x| <= |r - q|                        (x has length 1)
    keyword  the terms that r has and q has not can add at most saturate(sum of idf(t) * (k1 + 1))

so   total(r, x) <= floor + w_relevance * ((1 - share) * |r - q| + share * saturate(new terms)).
If the k-th best held memory reaches that bound, the top k held are the server's top k: not by guess.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring import fusion, keyword
from precall.scoring.keyword import Statistics
from precall.scoring.ranking import RankingWeights

NEAR_COSINE: Final = 0.75
"""Below this cosine to every pushed query the cache is no better than chance: do not even race."""


class Decision(Enum):
    """Who may answer a read."""

    COMPLETE = "complete"  # the cache holds every memory the session may see
    SURE = "sure"  # what it does not hold cannot reach the top
    BORDERLINE = "borderline"  # ask the server, serve the cache if it is late
    MISS = "miss"  # ask the server


@dataclass(frozen=True, slots=True)
class Coverage:
    """One pushed query. ``vector``: float32 unit vector, shape ``(dimension,)``.

    ``floor``: no memory that is not held has a total above it for this query; 0 when none was left out.
    """

    vector: NDArray[np.float32]
    terms: frozenset[str]
    floor: float


def judge(
    read_vector: NDArray[np.float32],
    read_terms: Iterable[str],
    held_totals: Sequence[float],
    coverages: Sequence[Coverage],
    statistics: Statistics,
    weights: RankingWeights,
    *,
    limit: int,
) -> Decision:
    """Decide for a cache that is not complete.

    ``held_totals``: the totals of the best held memories for this read, best first, at most ``limit``.
    ``statistics`` counts the whole rungs, but knows the frequency of held terms only.
    """
    if not coverages:
        return Decision.MISS
    if any(coverage.floor <= 0.0 for coverage in coverages):
        return Decision.SURE  # nothing at all was left out
    terms = set(read_terms)
    distances = np.linalg.norm(np.stack([c.vector for c in coverages]) - read_vector, axis=1)
    if len(held_totals) >= limit:
        bound = min(
            coverage.floor + weights.relevance * _relevance_gain(distance, terms - coverage.terms, statistics)
            for coverage, distance in zip(coverages, distances.tolist(), strict=True)
        )
        if held_totals[limit - 1] >= bound:
            return Decision.SURE
    nearest_cosine = 1.0 - float(distances.min()) ** 2 / 2
    return Decision.BORDERLINE if held_totals and nearest_cosine >= NEAR_COSINE else Decision.MISS


def _relevance_gain(distance: float, new_terms: set[str], statistics: Statistics) -> float:
    rarest = keyword.inverse_document_frequency(max(statistics.documents, 1), 1)
    possible = math.fsum(
        (
            keyword.inverse_document_frequency(statistics.documents, statistics.frequencies[term])
            if statistics.frequencies.get(term)
            else rarest
        )
        * (keyword.K1 + 1)
        for term in new_terms
    )
    return (1 - fusion.KEYWORD_SHARE) * distance + fusion.KEYWORD_SHARE * possible / (
        possible + fusion.KEYWORD_HALF
    )
