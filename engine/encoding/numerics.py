"""The one check that every row of every encoder passes before anybody may use it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import EncodedBatch
from precall.engine.errors import NumericsError, PrecallError

UNIT_TOLERANCE = 1e-3
"""How far the length of a unit vector may stray from 1: float16 arithmetic stays well inside."""


def unit_rows(vectors: NDArray[np.float32], errors: Mapping[int, PrecallError] | None = None) -> EncodedBatch:
    """Keep the rows that are unit vectors; zero the others and give each a ``NumericsError``.

    ``vectors`` is float32, shape ``(n, dimension)``, and is not changed. ``errors`` are rows that the caller
    already knows to have failed: they keep their own error.
    """
    failed: dict[int, PrecallError] = dict(errors or {})
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
        sound = np.abs(lengths - 1.0) <= UNIT_TOLERANCE
    for row in np.flatnonzero(~sound).tolist():
        failed.setdefault(row, _bad_row(float(lengths[row])))
    if not failed:
        return EncodedBatch(vectors)
    kept = vectors.copy()
    kept[list(failed)] = 0.0
    return EncodedBatch(kept, failed)


def _bad_row(length: float) -> NumericsError:
    fault = "is not finite" if not np.isfinite(length) else f"has length {length:.4g} instead of 1"
    return NumericsError(
        f"the model answered a vector that {fault}: this text was not embedded; the others are not touched",
        metadata={"length": f"{length:.6g}"},
    )
