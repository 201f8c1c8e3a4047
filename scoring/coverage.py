"""What a cache can prove about the memories it does not hold.

The server pushed the best memories for a query q and said: nothing you do not hold has a total above
``floor`` for q. How high can such a memory x score for the read r? Its importance and recency are the same
for both; only its relevance differs: (1 - s) * cosine + s * B / (B + h), where B is the BM25 score, and the
share s and the half h are those of each query's own fusion.

    dense    |r.x - q.x| <= |r - q|  (x has length 1) and q.x counts at most as 1, so the leg gains at most
             (1 - s_r) * |r - q| + max(0, s_q - s_r)
    keyword  let x score S by the terms that both have; by those that r has and q has not it scores at most
             P = sum of idf(t) * (k1 + 1). Terms grow rarer when memories go: by a factor of a at most since
             the floor was told. Then B_q >= S and B_r <= a * S + P, so the leg gains at most the largest
             s_r * (a * S + P) / (a * S + P + h_r) - s_q * S / (S + h_q) over what S can be

so   total(r, x) <= floor + w_relevance * (dense gain + keyword gain).
If the k-th best held memory reaches that bound, the top k held are the server's top k: not by guess. Only
terms count that a memory outside the cache may have.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring import keyword
from precall.scoring.fusion import KEYWORD_SHARE, Fusion
from precall.scoring.keyword import Statistics
from precall.scoring.ranking import RankingWeights

if TYPE_CHECKING:  # it needs what is made of this
    from precall.scoring.approximation import Approximation


_MOST_IMPACT: Final = keyword.K1 + 1
"""A term's weight in a document grows towards this with its count."""


def rarity(statistics: Statistics, terms: Iterable[str]) -> Mapping[str, float]:
    """Term -> idf; a term of unknown frequency may stand in a single document."""
    documents, frequencies = max(statistics.documents, 1), statistics.frequencies
    return {term: keyword.inverse_document_frequency(documents, frequencies.get(term) or 1) for term in terms}


class Decision(Enum):
    """Who may answer a read."""

    COMPLETE = "complete"  # the cache holds every memory the session may see
    SURE = "sure"  # what it does not hold cannot reach the top
    BORDERLINE = "borderline"  # ask the server, serve the cache if it is late
    MISS = "miss"  # ask the server


@dataclass(frozen=True)
class Coverage:
    """One pushed query. ``vector``: float32 unit vector, shape ``(dimension,)``.

    ``floor``: no memory that is not held has a total above it for this query; 0 when none was left out.
    ``keyword_share``: of the fusion by which the floor is a total. ``negated``: the query denies something.
    ``rarity``: term -> idf when the floor was told, as `rarity` has it; a term without one has not changed.
    """

    vector: NDArray[np.float32]
    terms: frozenset[str]
    floor: float
    keyword_share: float = KEYWORD_SHARE
    negated: bool = False
    rarity: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def fusion(self) -> Fusion:
        return Fusion.of(self.terms, self.keyword_share)


@dataclass(frozen=True)
class CoveredRead:
    """A read of a cache that is not complete.

    ``vector``: float32 unit vector. ``terms``: each once. ``elsewhere``: those of them that a memory which is
    not held may have. ``statistics`` counts the whole rungs, but knows the frequency of some terms only.
    ``weights`` are those of the read, its fusion among them. ``negated``: it denies something.
    ``approximation``: of the vector, where a light encoder made it.
    """

    vector: NDArray[np.float32]
    terms: tuple[str, ...]
    elsewhere: Collection[str]
    statistics: Statistics
    weights: RankingWeights
    negated: bool = False
    approximation: "Approximation | None" = None

    @cached_property
    def rarity(self) -> Mapping[str, float]:
        return rarity(self.statistics, self.terms)

    @cached_property
    def _most(self) -> Mapping[str, float]:
        """Term -> the BM25 score that no memory outside the cache exceeds by it."""
        return {term: idf * _MOST_IMPACT for term, idf in self.rarity.items() if term in self.elsewhere}

    def bound(self, coverage: Coverage, distance: float) -> float:
        """The total that no memory outside the cache exceeds, by a coverage at this distance ``|r - q|``.

        It is a total by the read's own ``vector``, and holds for an approximate one as it does for any.
        """
        gain = _relevance_gain(distance, self._most, coverage, self.weights.fusion)
        return coverage.floor + self.weights.relevance * gain


def _relevance_gain(distance: float, most: Mapping[str, float], coverage: Coverage, read: Fusion) -> float:
    """The most by which a memory can be more relevant to the read than it is to the covered query."""
    asked = coverage.fusion
    dense = (1 - read.share) * distance + max(asked.share - read.share, 0.0)
    new = math.fsum(score for term, score in most.items() if term not in coverage.terms)
    shared, rarer = 0.0, 1.0
    for term, score in most.items():
        if term in coverage.terms:
            before = coverage.rarity.get(term, score / _MOST_IMPACT) * _MOST_IMPACT
            shared += before
            rarer = max(rarer, score / before)
    return dense + _keyword_gain(new, shared, rarer, read, asked)


def _keyword_gain(new: float, shared: float, rarer: float, read: Fusion, asked: Fusion) -> float:
    """The largest gain of the keyword leg over every score by shared terms, which was 0 to ``shared``.

    ``rarer``: the factor by which such a score has grown at most.
    """

    def gain(score: float) -> float:
        after = rarer * score + new
        return read.share * after / (after + read.half) - asked.share * score / (score + asked.half)

    # With a the factor, its derivative is 0 where
    # sqrt(s_r h_r a) / (a S + P + h_r) = sqrt(s_q h_q) / (S + h_q): nowhere, or once.
    rising, falling = math.sqrt(read.share * read.half * rarer), math.sqrt(asked.share * asked.half)
    scores = [0.0, shared]
    if rising != rarer * falling:
        turn = (falling * (new + read.half) - rising * asked.half) / (rising - rarer * falling)
        scores.append(min(max(turn, 0.0), shared))
    return max(map(gain, scores))
