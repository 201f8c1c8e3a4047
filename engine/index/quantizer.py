"""int8 codes for unit vectors: one range a dimension, robust against outliers."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_OUTLIER_SHARE: Final = 0.001
_MARGIN: Final = 0.25
"""With 0.1 the few components that saturate make half of the error of the vectors that the codes fit
worst.
"""

_FEW: Final = 50
"""With fewer vectors the outermost is no outlier."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Per dimension the smallest value with a code of its own, and the span above it; float32, ``(d,)``."""

    minimum: NDArray[np.float32]
    span: NDArray[np.float32]


def train(vectors: NDArray[np.floating]) -> Ranges:
    """Ranges from unit vectors, shape ``(n, d)``, n >= 1.

    The outermost 0.1 % of each side, at least one, are left to saturate and the rest is widened by a quarter:
    one outlying vector would otherwise stretch a range and cost every other vector its resolution.
    """
    count = len(vectors)
    # Rows of a sorted copy rather than `np.quantile`, which takes four times as long.
    ordered = np.sort(np.ascontiguousarray(vectors.T, np.float32), axis=1)
    cut = math.ceil(_OUTLIER_SHARE * count) if count >= _FEW else 0
    low, high = ordered[:, cut], ordered[:, count - 1 - cut]
    span = np.maximum(high - low, 1e-6)
    return Ranges(
        minimum=(low - _MARGIN * span).astype(np.float32),
        span=(span * (1 + 2 * _MARGIN)).astype(np.float32),
    )
