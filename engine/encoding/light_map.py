"""A linear map from a small model's vectors to a large model's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

RIDGE: Final = 0.1
"""Of the small vectors' mean variance a dimension. Picked with `precall.bench.light` on LoCoMo, where it made
little difference; figures on LoCoMo are not held out from it.
"""


@dataclass(frozen=True, slots=True)
class LearnedMap:
    """``y = x W + b``, then made to length one.

    ``rows``: float32, shape ``(small dimension + 1, large dimension)``: the rows of ``W``, then ``b``.
    """

    rows: NDArray[np.float32]

    @classmethod
    def fitted(cls, small: NDArray[np.float32], large: NDArray[np.float32]) -> Self:
        """By ridge regression on centred vectors (Hoerl and Kennard 1970, Technometrics 12(1), eq. 2.1).

        ``small``, ``large``: vectors of the same texts, float32 unit rows, shapes ``(n, s)`` and ``(n, d)``.
        """
        x, y = small.astype(np.float64), large.astype(np.float64)
        mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
        x -= mean_x
        gram = x.T @ x
        gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
        weights = np.linalg.solve(gram, x.T @ (y - mean_y))
        return cls(np.vstack([weights, mean_y - mean_x @ weights]).astype(np.float32))

    def __call__(self, small: NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit rows, float32, shape ``(n, d)``; a row that the map sends to zero is NaN."""
        mapped = small @ self.rows[:-1] + self.rows[-1]
        lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            unit: NDArray[np.float32] = mapped / lengths
        return unit

    def write(self, path: Path) -> None:
        """As numpy's own format, which a client reads without unpickling anything."""
        with path.open("wb") as file:
            np.save(file, self.rows, allow_pickle=False)
