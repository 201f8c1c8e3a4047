"""Vectors as the wire carries them: raw little-endian rows, named after their model."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.card import ModelCard
from precall.engine.errors import FingerprintMismatch, InvalidInput, InvalidVector, NotSupported
from precall.proto import common_pb2
from precall.scoring import vectors as codec

LENGTH_TOLERANCE: Final = 0.01
"""How far from 1 a vector's length may be; rounding to float16 moves it by less than 0.001."""

_DTYPES: Final[dict[int, "np.dtype[np.floating]"]] = {
    common_pb2.VECTOR_FORMAT_UNSPECIFIED: codec.FLOAT16,
    common_pb2.VECTOR_FORMAT_FLOAT16: codec.FLOAT16,
    common_pb2.VECTOR_FORMAT_FLOAT32: codec.FLOAT32,
}


def vector_dtype(vector_format: int, field: str) -> "np.dtype[np.floating]":
    """Raises NotSupported for int8 codes and InvalidInput for a format that the contract does not have."""
    if vector_format == common_pb2.VECTOR_FORMAT_INT8:
        raise NotSupported(f"{field}: int8 codes are not supported yet, use FLOAT16")
    dtype = _DTYPES.get(vector_format)
    if dtype is None:
        raise InvalidInput(f"{field} has the unknown vector format {vector_format}")
    return dtype


def single_vector(message: common_pb2.Vectors, card: ModelCard, field: str) -> NDArray[np.float32]:
    """The one row of ``message`` as a float32 unit vector, shape ``(dimension,)``.

    Raises InvalidVector, FingerprintMismatch, NotSupported.
    """
    require_fingerprint(message.model_fingerprint, card, field)
    dtype = vector_dtype(message.format, field)
    if message.count != 1 or message.dimension != card.dimension:
        raise InvalidVector(
            f"{field} has {message.count} rows of {message.dimension}, one of {card.dimension} is needed"
        )
    try:
        row = codec.from_bytes(message.data, count=1, dimension=card.dimension, dtype=dtype)[0]
        wide = row.astype(np.float32)
        length = codec.length_of(wide)
        unit: NDArray[np.float32] = wide / np.float32(length)
    except ValueError as error:
        raise InvalidVector(f"{field}: {error}") from error
    if abs(length - 1.0) > LENGTH_TOLERANCE:
        raise InvalidVector(f"{field} has length {length:.4f}: only unit vectors are taken, normalise it")
    return unit


def require_fingerprint(fingerprint: str, card: ModelCard, field: str) -> None:
    """Raises FingerprintMismatch unless the vectors are said to be of this server's model."""
    if fingerprint != card.fingerprint:
        raise FingerprintMismatch(
            f"{field} is of model {fingerprint or '(not named)'}, this server runs {card.fingerprint}",
            metadata={"model_fingerprint": card.fingerprint},
        )


def vectors_message(
    rows: Sequence[NDArray[np.floating]], card_fingerprint: str, dimension: int, vector_format: int
) -> common_pb2.Vectors:
    """Rows of shape ``(dimension,)``, in order."""
    dtype = vector_dtype(vector_format, "format")
    wire_format = (
        common_pb2.VECTOR_FORMAT_FLOAT32 if dtype == codec.FLOAT32 else common_pb2.VECTOR_FORMAT_FLOAT16
    )
    matrix = np.stack(rows) if rows else np.empty((0, dimension), dtype)
    return common_pb2.Vectors(
        data=codec.to_bytes(matrix, dtype),
        count=len(rows),
        dimension=dimension,
        format=wire_format,
        model_fingerprint=card_fingerprint,
    )
