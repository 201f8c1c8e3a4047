"""What a cache can prove about the memories it does not hold.

The server pushed the best memories for a query q and said: nothing you do not hold has a total above
``floor`` for q. How high can such a memory x score for the read r? Its importance and recency are the same
for both; only its relevance differs: (1 - s) * cosine + s * B / (B + h), where B is the BM25 score, and the
share s and the half h are those of each query's own fusion.

    dense    |r.x - q.x| <= |r - q|  (x has length 1) and q.x counts at most as 1, so the leg gains at most
             (1 - s_r) * |r - q| + max(0, s_q - s_r)
    keyword  let x score S by the terms that both have; by those that r has and q has not it scores at most
             P = sum of idf(t) * (k1 + 1). Then B_q >= S and B_r <= S + P, so the leg gains at most the
             largest s_r * (S + P) / (S + P + h_r) - s_q * S / (S + h_q) over what S can be

so   total(r, x) <= floor + w_relevance * (dense gain + keyword gain).
If the k-th best held memory reaches that bound, the top k held are the server's top k: not by guess.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring import keyword
from precall.scoring.fusion import KEYWORD_SHARE, Fusion
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
    ``keyword_share``: of the fusion by which the floor is a total.
    """

    vector: NDArray[np.float32]
    terms: frozenset[str]
    floor: float
    keyword_share: float = KEYWORD_SHARE

    @property
    def fusion(self) -> Fusion:
        return Fusion.of(self.terms, self.keyword_share)


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
    ``statistics`` counts the whole rungs, but knows the frequency of held terms only. ``weights`` are those
    of the read, its fusion among them.
    """
    if not coverages:
        return Decision.MISS
    if any(coverage.floor <= 0.0 for coverage in coverages):
        return Decision.SURE  # nothing at all was left out
    distances = np.linalg.norm(np.stack([c.vector for c in coverages]) - read_vector, axis=1)
    if len(held_totals) >= limit:
        most = _most_by_term(read_terms, statistics)
        bound = min(
            coverage.floor + weights.relevance * _relevance_gain(distance, most, coverage, weights.fusion)
            for coverage, distance in zip(coverages, distances.tolist(), strict=True)
        )
        if held_totals[limit - 1] >= bound:
            return Decision.SURE
    nearest_cosine = 1.0 - float(distances.min()) ** 2 / 2
    return Decision.BORDERLINE if held_totals and nearest_cosine >= NEAR_COSINE else Decision.MISS


def _most_by_term(terms: Iterable[str], statistics: Statistics) -> dict[str, float]:
    """Term -> the BM25 score that no document can exceed by it."""
    frequencies = statistics.frequencies
    # A term that is not held may stand in a single document.
    documents = max(statistics.documents, 1)
    return {
        term: keyword.inverse_document_frequency(documents, frequencies.get(term) or 1) * (keyword.K1 + 1)
        for term in dict.fromkeys(terms)
    }


def _relevance_gain(distance: float, most: dict[str, float], coverage: Coverage, read: Fusion) -> float:
    """The most by which a memory can be more relevant to the read than it is to the covered query."""
    asked = coverage.fusion
    dense = (1 - read.share) * distance + max(asked.share - read.share, 0.0)
    new = math.fsum(score for term, score in most.items() if term not in coverage.terms)
    shared = math.fsum(score for term, score in most.items() if term in coverage.terms)
    return dense + _keyword_gain(new, shared, read, asked)


def _keyword_gain(new: float, shared: float, read: Fusion, asked: Fusion) -> float:
    """The largest gain of the keyword leg over every score by shared terms, which is 0 to ``shared``."""

    def gain(score: float) -> float:
        after = score + new
        return read.share * after / (after + read.half) - asked.share * score / (score + asked.half)

    # Its derivative is 0 where sqrt(s_r h_r) / (S + P + h_r) = sqrt(s_q h_q) / (S + h_q): nowhere, or once.
    rising, falling = math.sqrt(read.share * read.half), math.sqrt(asked.share * asked.half)
    scores = [0.0, shared]
    if rising != falling:
        turn = (falling * (new + read.half) - rising * asked.half) / (rising - falling)
        scores.append(min(max(turn, 0.0), shared))
    return max(map(gain, scores))
