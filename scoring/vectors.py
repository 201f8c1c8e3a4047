"""Vectors as they travel and as they are kept: little-endian bytes, float16 or float32, unit length."""

import numpy as np
from numpy.typing import NDArray

FLOAT16 = np.dtype("<f2")
FLOAT32 = np.dtype("<f4")


def to_bytes(vectors: NDArray[np.floating], dtype: np.dtype) -> bytes:
    """Raw little-endian rows of any shape."""
    return np.ascontiguousarray(vectors, dtype).tobytes()


def from_bytes(
    data: bytes,
    *,
    count: int,
    dimension: int,
    dtype: np.dtype,
) -> NDArray[np.floating]:
    """A read-only view, shape ``(count, dimension)``. Raises ValueError when the length does not fit."""
    expected = count * dimension * dtype.itemsize
    if len(data) != expected:
        raise ValueError(
            f"{count} vectors of {dimension} x {dtype.itemsize} bytes take {expected} bytes, got {len(data)}"
        )
    return np.frombuffer(data, dtype).reshape(count, dimension)


def unit(vector: NDArray[np.floating]) -> NDArray[np.float32]:
    """The vector at length 1, float32. Raises ValueError for NaN, infinity or length zero."""
    values = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(values))
    if not np.isfinite(length) or length == 0.0:
        raise ValueError("the vector is zero or holds NaN or infinity")
    return values / np.float32(length)
