"""The vectors of the model that a tenant migrates to, beside its memories: rows of ``next_vectors``.

The row of a memory keeps the old model's vector until the migration is finished. A vector here begins behind
ballast, as words do in a memory's row (`precall.engine.memory.schema`): a deleted one leaves no bytes.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.rows import DamagedRow
from precall.engine.memory.schema import LOCAL_BYTES

_BALLAST: Final = bytes(LOCAL_BYTES)
_INSERT: Final = (
    "INSERT INTO next_vectors (number, ballast, vector, checksum) SELECT ?1, ?2, ?3, ?4 "
    "WHERE EXISTS (SELECT 1 FROM memories WHERE number = ?1) ON CONFLICT (number) DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A memory that the new model has made no vector of. ``number``: of its row."""

    number: int
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class NextVector:
    """The new model's vector of a memory. ``vector``: float16, shape ``(dimension,)``."""

    number: int
    vector: NDArray[np.float16]


def store_next_vectors(connection: sqlite3.Connection, vectors: Sequence[NextVector]) -> None:
    """Those whose memory is gone, or has a vector already, are passed over."""
    connection.executemany(_INSERT, [_encode(each) for each in vectors])


def decode_next_vector(number: int, content: bytes, checksum: int, *, dimension: int) -> NDArray[np.float16]:
    """A read-only array of shape ``(dimension,)``. Raises DamagedRow."""
    try:
        if _checksum(number, content) != checksum:
            raise ValueError("the checksum is that of another vector")
        vector = _vector(content)
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise ValueError("not a vector of the new model")
    except (ValueError, TypeError) as error:
        raise DamagedRow(f"the new vector of row {number} is not what was written: {error}") from error
    return vector


def as_reloaded_vector(vector: NDArray[np.float16]) -> NDArray[np.float16]:
    """What `decode_next_vector` gives for it, without asking the file."""
    return _vector(_content(vector))


def _encode(each: NextVector) -> tuple[int, bytes, bytes, int]:
    content = _content(each.vector)
    return each.number, _BALLAST, content, _checksum(each.number, content)


def _content(vector: NDArray[np.float16]) -> bytes:
    return vector.astype("<f2").tobytes()


def _vector(content: bytes) -> NDArray[np.float16]:
    return np.frombuffer(content, "<f2").astype(np.float16, copy=False)


def _checksum(number: int, content: bytes) -> int:
    return crc32(content, crc32(number.to_bytes(8, "little", signed=True)))
