"""Where vectors lie together, and how much more like a query one of them may be than its cluster's centre
is.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.fusion import KEYWORD_SHARE
from precall.scoring.ranking import RankingWeights

_POINTS_PER_CLUSTER: Final = 40
_ROUNDS: Final = 8
_PROBES: Final = 256
_PROBED: Final = 20_000
_BEST: Final = 10
_SPREAD_QUANTILE: Final = 0.998
_CHUNK: Final = 4_096
_SEED: Final = 20_260


@dataclass(frozen=True, slots=True)
class Clusters:
    """``centres``: means of their vectors, float32, ``(count, dimension)``. ``spread``: what `train`
    measured:

    of a query's best results nearly all have ``q.x <= q.centre + spread``.
    """

    centres: NDArray[np.float32]
    spread: float

    def __len__(self) -> int:
        return len(self.centres)

    def assign(self, vectors: NDArray[np.floating]) -> NDArray[np.int64]:
        """The cluster of each unit vector, whose centre is the nearest; int64, shape ``(n,)``."""
        half_squares = np.vecdot(self.centres, self.centres) / 2
        parts = [
            (vectors[begin : begin + _CHUNK].astype(np.float32) @ self.centres.T - half_squares).argmax(
                axis=1
            )
            for begin in range(0, len(vectors), _CHUNK)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def sample_size(count: int) -> int:
    """Vectors that `train` makes use of for so many clusters."""
    return max(count * _POINTS_PER_CLUSTER, _PROBED)


def train(vectors: NDArray[np.floating], merits: NDArray[np.float32], count: int) -> Clusters:
    """``count`` clusters by k-means, fewer if there are fewer vectors; in the calling thread alone.

    vectors: a sample of unit vectors, ``(n, dimension)``. merits: what importance and age add to each one's
    total.
    """
    import faiss

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
    return Clusters(centres, _spread(rows, merits, Clusters(centres, 0.0)))


def _spread(rows: NDArray[np.float32], merits: NDArray[np.float32], clusters: Clusters) -> float:
    """Rows stand in for queries; their best by cosine, and by total, are what a search must not miss."""
    if len(rows) <= _BEST:
        return 2.0
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
        of_centres = np.einsum("pnd,pd->pn", clusters.centres[assigned[best]], rows[probes])
        beyond = np.take_along_axis(cosines, best, axis=1) - of_centres
        spreads.append(float(np.quantile(beyond, _SPREAD_QUANTILE)))
    return max(spreads)
