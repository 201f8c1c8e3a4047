"""How well a light encoder's vectors stand for the model's own."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

_STAY_BELOW: Final = 0.95
_BEST: Final = 10


@dataclass(frozen=True, slots=True)
class Agreement:
    """On texts that the light encoder was not fitted on.

    ``cosine``: mean, of a query's two vectors. ``top_ten_overlap``: mean share of a query's ten nearest
    documents by the model that are its ten nearest by the light encoder. ``distance`` and ``score``: as in
    `scoring.approximation.Approximation`.
    """

    cosine: float
    top_ten_overlap: float
    distance: float
    score: float

    @classmethod
    def measured(
        cls,
        light: NDArray[np.float32],
        queries: NDArray[np.float32],
        documents: NDArray[np.float32],
    ) -> Self:
        """``light`` and ``queries``: the two vectors of the same queries; ``documents``: the model's.

        Unit rows, float32, shapes ``(n, d)``, ``(n, d)`` and ``(m, d)``; ten documents at least.
        """
        by_light, by_model = light @ documents.T, queries @ documents.T
        found, wanted = _nearest(by_light), _nearest(by_model)
        overlaps = [len(np.intersect1d(*pair)) / _BEST for pair in zip(found, wanted, strict=True)]
        return cls(
            cosine=float(np.vecdot(light, queries).mean()),
            top_ten_overlap=float(np.mean(overlaps)),
            distance=float(np.quantile(np.linalg.norm(light - queries, axis=1), _STAY_BELOW)),
            score=float(np.quantile((by_light - by_model).std(axis=1), _STAY_BELOW)),
        )


def _nearest(cosines: NDArray[np.float32]) -> NDArray[np.intp]:
    return np.argpartition(-cosines, _BEST - 1, axis=1)[:, :_BEST]
