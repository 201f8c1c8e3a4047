"""The one check that every score of every reranker passes before anybody may use it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.reranker import RerankedBatch
from precall.engine.errors import NumericsError, PrecallError


def finite_scores(
    scores: NDArray[np.float32], errors: Mapping[int, PrecallError] | None = None
) -> RerankedBatch:
    """Keep the scores that are numbers; make the others 0 and give each a ``NumericsError``.

    ``scores`` is float32, shape ``(n,)``, and is not changed. ``errors`` are rows that the caller already
    knows to have failed: they keep their own error.
    """
    failed: dict[int, PrecallError] = dict(errors or {})
    for row in np.flatnonzero(~np.isfinite(scores)).tolist():
        failed.setdefault(
            row,
            NumericsError(
                "the model answered a score that is not finite: this pair was not scored; "
                "the others are not touched"
            ),
        )
    kept = scores.copy()
    kept[list(failed)] = 0.0
    return RerankedBatch(kept, failed)
