"""Where vectors lie together, and how much more like a query one of them may be than its cluster's centre
is.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.faiss_library import faiss_library
from precall.scoring.fusion import KEYWORD_SHARE
from precall.scoring.ranking import RankingWeights
from precall.scoring.vectors import widened

# Figures: processor time and bounds for 50,000 memories of `bench/index_memories.py` with 384 dimensions.

_POINTS_PER_CLUSTER: Final = 40
"""To train on, over the 39 below which FAISS warns unless told not to. 100 make a listing last half as long
again.
"""

_ROUNDS: Final = 8
"""Of k-means. With 3 the spread is .249 instead of .235, with 20 it is no smaller."""

_PROBES: Final = 256
_PROBED: Final = 20_000
"""Rows that are asked about, and those that they are compared with. Fewer of these are less dense, and make
what is measured too small: the spread is .200 among 5,000 and .251 among 50,000, for twice the listing.
"""

_BEST: Final = 10
"""Results of a probe that count: the usual limit of a search."""

_SPREAD_QUANTILE: Final = 0.998
"""Of a result by itself, so that of ten 98 % are found whole. Chosen for a recall over .99: a lower one makes
smaller spreads (.98: .199) and misses more, a higher one (.9998: .265) reads more lists.
"""

_REACH_QUANTILE: Final = 0.999
"""What lies beyond is a misfit and looked at in every search: one row in a thousand. With .99 they are seven
times as many.
"""

_CHUNK: Final = 4_096
"""Vectors at a time, so that their products with all centres stay within some tens of MB."""

_SEED: Final = 20_260
"""Any: the same rows make the same lists."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """``clusters``: whose centre is the nearest, int64, ``(n,)``. ``distances``: to it, float32, ``(n,)``."""

    clusters: NDArray[np.int64]
    distances: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Clusters:
    """``centres``: means of their vectors, float32, ``(count, dimension)``.

    What `train` measured: of a query's best results nearly all have ``q.x <= q.centre + spread``, and nearly
    all vectors lie no farther from their centre than ``reach``. Of one that does, ``spread`` says nothing.
    """

    centres: NDArray[np.float32]
    spread: float
    reach: float

    def __len__(self) -> int:
        return len(self.centres)

    def assign(self, vectors: NDArray[np.floating]) -> Assigned:
        """Unit vectors, ``(n, dimension)``, to their clusters."""
        half_squares = np.vecdot(self.centres, self.centres) / 2
        numbers, distances = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
        for begin in range(0, len(vectors), _CHUNK):
            chunk = slice(begin, begin + _CHUNK)
            nearness = widened(vectors[chunk]) @ self.centres.T - half_squares
            numbers[chunk] = nearness.argmax(axis=1)
            best = np.take_along_axis(nearness, numbers[chunk, None], axis=1)[:, 0]
            distances[chunk] = np.sqrt(np.maximum(1 - 2 * best, 0))  # |x - c|^2 with |x| = 1
        return Assigned(numbers, distances)


def sample_size(count: int) -> int:
    """Vectors that `train` makes use of for so many clusters."""
    return max(count * _POINTS_PER_CLUSTER, _PROBED)


def train(vectors: NDArray[np.floating], merits: NDArray[np.float32], count: int) -> Clusters:
    """``count`` clusters by k-means, fewer if there are fewer vectors; in the calling thread alone.

    vectors: a sample of unit vectors, ``(n, dimension)``. merits: what importance and age add to each one's
    total.
    """
    faiss = faiss_library()
    faiss.omp_set_num_threads(1)
    rows = np.ascontiguousarray(vectors, np.float32)
    kmeans = faiss.Kmeans(
        rows.shape[1],
        min(count, len(rows)),
        niter=_ROUNDS,
        seed=_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=_POINTS_PER_CLUSTER,
    )
    kmeans.train(rows)
    centres = np.ascontiguousarray(kmeans.centroids, np.float32)
    return _measured(rows, merits, Clusters(centres, spread=2.0, reach=2.0))


def _measured(rows: NDArray[np.float32], merits: NDArray[np.float32], clusters: Clusters) -> Clusters:
    """Rows stand in for queries; their best by cosine, and by total, are what a search must not miss."""
    if len(rows) <= _BEST:
        return clusters
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), _PROBED)).astype(np.int64)
    rows, merits = rows[chosen], merits[chosen]
    probes = np.linspace(0, len(rows) - 1, min(len(rows), _PROBES)).astype(np.int64)
    cosines = rows[probes] @ rows.T
    cosines[np.arange(len(probes)), probes] = -2
    assigned = clusters.assign(rows)
    dense_share = RankingWeights().relevance * (1 - KEYWORD_SHARE)
    spreads = []
    for totals in (cosines, dense_share * cosines + merits):
        best = np.argpartition(totals, -_BEST, axis=1)[:, -_BEST:]
        centres = clusters.centres[assigned.clusters[best]]
        of_centres = np.einsum("pnd,pd->pn", centres, rows[probes])
        beyond = np.take_along_axis(cosines, best, axis=1) - of_centres
        spreads.append(float(np.quantile(beyond, _SPREAD_QUANTILE)))
    reach = float(np.quantile(assigned.distances, _REACH_QUANTILE))
    return Clusters(clusters.centres, max(spreads), reach)
