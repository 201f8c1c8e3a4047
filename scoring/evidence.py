"""What a cache knows that tells whether its best are the server's best, as numbers for a calibration.

The proof of `precall.scoring.coverage` reckons with the worst memory there could be. What is left out seldom
is the worst: how deep the read's best stood in the answer to the pushed query, how far the read has gone from
it, and what it asks that no pushed query asked, tell more. None of these numbers depends on the floors, save
``slack``, which grows when a floor falls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.coverage import Coverage, CoveredRead
from precall.scoring.ranking import Ranked

TOP: Final = 3
"""An answer is right when the server's own first three are in it."""

SERVED: Final = 10
"""Results of an ordinary read."""

_LEAST_SLACK: Final = -0.5
_SPAN: Final = 8
"""Pushed queries whose span is looked at: the nearest. More of them cost more and change little."""
_RIDGE: Final = 1e-4
"""Keeps the span of nearly equal queries from being a matter of rounding."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one read; *the query* is the pushed one nearest to it, *depth* a place in the order of the query.

    Differences of scores are in tenths: so all numbers are of one magnitude.
    """

    slack: float  # third best total, less the lowest bound of what is not held; at least -5
    depth_of_three: float  # of the deepest of the best three, as a share of the logarithm of all
    depth_of_ten: float  # of the best ten on average
    distance: float  # |read - query|
    residual: float  # length of the read's part outside the span of the pushed queries
    lead: float  # of the best over the third
    gap: float  # of the third over the tenth
    relevance: float  # of the third
    length: float  # logarithm of the read's terms
    held: float  # logarithm of the items held, from 256 on
    new: float  # rarity of the terms that the query has not, as a share of all the read's
    unknown: float  # rarity of those of them that may stand outside the cache and that nothing held has


NAMES: Final = tuple(field.name for field in fields(Evidence))
_IN_ORDER: Final = attrgetter(*NAMES)  # dataclasses.astuple copies deeply, which takes 80 us


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near a read is to some coverages: ``distances``, float32, one each; ``nearest``: a place."""

    distances: NDArray[np.float32]
    nearest: int
    residual: float

    @classmethod
    def of(cls, read_vector: NDArray[np.float32], queries: NDArray[np.float32]) -> "Nearness":
        """``queries``: float32 unit vectors, shape ``(coverages, dimension)``, at least one."""
        cosines = np.vecdot(queries, read_vector)
        # Not from the cosines: near 1 they are rounded to where a proof would rest on the rounding.
        distances = np.linalg.norm(queries - read_vector, axis=1)
        near = np.argsort(-cosines, kind="stable")[:_SPAN]
        span, shares = queries[near], cosines[near]
        gram = span @ span.T + _RIDGE * np.eye(len(near), dtype=np.float32)
        inside = float(shares @ np.linalg.solve(gram, shares))
        return cls(distances, int(near[0]), math.sqrt(max(1.0 - inside, 0.0)))

    @property
    def distance(self) -> float:
        """To the nearest."""
        return float(self.distances[self.nearest])


def lowest_bound(read: CoveredRead, coverages: Sequence[Coverage], nearness: Nearness) -> float:
    """The total that no memory outside the cache exceeds, by the coverage that says most."""
    return min(
        read.bound(coverage, distance)
        for coverage, distance in zip(coverages, nearness.distances.tolist(), strict=True)
    )


def gather(
    read: CoveredRead,
    best: Sequence[Ranked],
    query: Coverage,
    nearness: Nearness,
    *,
    bound: float,
    query_totals: NDArray[np.float32],
) -> Evidence:
    """Evidence of a read whose best held memories are ``best``, at least `SERVED` of them.

    ``query``: the nearest coverage. ``query_totals``: of every held memory for it, float32, by the rows that
    ``best`` names. ``bound``: the `lowest_bound`.
    """
    ten = best[:SERVED]
    first, third, last = ten[0], ten[TOP - 1], ten[-1]
    depths = _depths(query_totals, [each.row for each in ten])
    scale = math.log1p(len(query_totals))
    rarity = read.rarity
    everything = math.fsum(rarity.values()) or 1.0
    new = [term for term in read.terms if term not in query.terms]
    frequencies = read.statistics.frequencies
    unknown = [term for term in new if term in read.elsewhere and not frequencies.get(term)]
    return Evidence(
        slack=10 * max(third.total - bound, _LEAST_SLACK),
        depth_of_three=float(depths[:TOP].max()) / scale,
        depth_of_ten=float(depths.mean()) / scale,
        distance=nearness.distance,
        residual=nearness.residual,
        lead=10 * (first.total - third.total),
        gap=10 * (third.total - last.total),
        relevance=10 * third.relevance,
        length=math.log(max(len(read.terms), 1)),
        held=math.log(len(query_totals) / 256),
        new=math.fsum(rarity[term] for term in new) / everything,
        unknown=math.fsum(rarity[term] for term in unknown) / everything,
    )


def values(evidence: Evidence) -> tuple[float, ...]:
    """The numbers in the order of `NAMES`."""
    numbers: tuple[float, ...] = _IN_ORDER(evidence)
    return numbers


def continues(read: CoveredRead, query: Coverage) -> bool:
    """Whether the read goes on with what the query began: it has half of the query's terms, or more."""
    return bool(query.terms) and 2 * len(query.terms.intersection(read.terms)) >= len(query.terms)


def _depths(totals: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.floating]:
    """``ln(1 + place)`` of the rows in the order of the totals, the best at place 0."""
    above = (totals > totals[list(rows), None]).sum(axis=1)
    depths: NDArray[np.floating] = np.log1p(above)
    return depths
