"""Rows of the ``memories`` table, verified, and the memories that they hold."""

import json
from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

import numpy as np

from precall.engine.memory.memory import IndexedMemory, Memory, MemoryKind, Source, from_unix_microseconds
from precall.engine.memory.rows import (
    CURRENT,
    CURRENT_CHECKSUM,
    NO_ENTRIES,
    NO_NAMES,
    SAID,
    STATES,
    DamagedRow,
    Row,
    decode_moment,
    decode_rung,
    encode_json,
    fate_checksum,
    indexed_checksum,
    said_bytes,
    vector_of,
)

_FATE_COLUMN_COUNT: Final = 6
_PATH_AND_SAID: Final = slice(_FATE_COLUMN_COUNT - 1, _FATE_COLUMN_COUNT + len(SAID))
_INDEX_COLUMN_COUNT: Final = 4

_ID: Final = 1
"""Place of the id in `_PATH_AND_SAID`: it differs from row to row."""

_encode_in_lines: Final = json.JSONEncoder(
    ensure_ascii=False, separators=("\n", ":"), check_circular=False
).encode


def verified_said(row: Row) -> bytes:
    """Of a row that begins with `MEMORY_COLUMNS`: what was said, as the bytes that its checksum is of, for
    `decode_said`.

    Raises DamagedRow when a checksum is not that of what stands beside it.
    """
    state, superseded_version, superseded_at, fate, checksum, path = row[:_FATE_COLUMN_COUNT]
    said = row[_FATE_COLUMN_COUNT : _FATE_COLUMN_COUNT + len(SAID)]
    try:
        content = said_bytes(path, said)
        if crc32(content) != checksum:
            raise ValueError("the checksum is that of other words")
        is_current = (state, superseded_version, superseded_at, fate) == (CURRENT, 0, None, CURRENT_CHECKSUM)
        if not is_current and fate_checksum(state, superseded_version, superseded_at) != fate:
            raise ValueError("the checksum is that of another fate")
    except (ValueError, TypeError) as error:
        raise _damaged(said[0], error) from error
    return content


def verified_contents(rows: Sequence[Row], columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """What `verified_said` gives of each row, of which there is one at least. ``columns``: of the same rows.

    Raises DamagedRow.

    They are encoded together. If a checksum is not that of what came out, each row is looked at by itself,
    which tells whose fault it is.
    """
    state, superseded_version, superseded_at, fate, checksum = columns[: _FATE_COLUMN_COUNT - 1]
    fates = ((state, CURRENT), (superseded_version, 0), (superseded_at, None), (fate, CURRENT_CHECKSUM))
    if all(column.count(value) == len(rows) for column, value in fates):
        contents = _contents(columns[_PATH_AND_SAID])
        if tuple(map(crc32, contents)) == checksum:
            return contents
    return [verified_said(row) for row in rows]


def _contents(columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """What `said_bytes` makes of each row, sooner. ``columns``: the rung's path and those of `SAID`.

    Most columns say the same in every row and are encoded once. What is equal and yet written otherwise (0.0
    and -0.0) comes out wrong, and so fails its checksum.
    """
    template, varying = [], []
    for place, column in enumerate(columns):
        if place != _ID and column.count(column[0]) == len(column):
            template.append(encode_json(column[0]).replace("%", "%%"))
        else:
            template.append("%s")
            varying.append(
                _encode_in_lines(column)[1:-1].split("\n")
            )  # no JSON value has a line break inside
    row = f"[{','.join(template)}]"
    return [(row % values).encode() for values in zip(*varying, strict=True)]


def decode_said(content: bytes) -> Memory:
    """A memory that is current. Raises DamagedRow."""
    path, *said = json.loads(content)
    return _decode(path, said, CURRENT, 0, None)


def decode_memory(row: Row) -> Memory:
    """Raises DamagedRow."""
    verified_said(row)
    state, superseded_version, superseded_at, _, _, path, *said = row
    return _decode(path, said, state, superseded_version, superseded_at)


def _decode(
    path: str, said: Sequence[Any], state: int, superseded_version: int, superseded_at: int | None
) -> Memory:
    (
        identity, kind, pinned, confidence, importance, event_time, said_time, valid_from, valid_until,
        expires_at, created_at, created_version, tokens_given, tokens_used, text, key,
        conversation_id, turn_id, uri, derived_from, questions, metadata,
    ) = said  # fmt: skip
    try:
        return Memory(
            id=identity,
            rung=decode_rung(path),
            kind=MemoryKind(kind),
            state=STATES[state],
            text=text,
            key=key,
            confidence=confidence,
            importance=importance,
            event_time=from_unix_microseconds(event_time),
            said_time=from_unix_microseconds(said_time),
            valid_from=decode_moment(valid_from),
            valid_until=decode_moment(valid_until),
            expires_at=decode_moment(expires_at),
            source=Source(conversation_id, turn_id, uri, _decode_names(derived_from)),
            questions=_decode_names(questions),
            metadata={} if metadata == NO_ENTRIES else json.loads(metadata),
            pinned=bool(pinned),
            created_version=created_version,
            superseded_version=superseded_version,
            superseded_at=decode_moment(superseded_at),
            created_at=from_unix_microseconds(created_at),
            tokens_given=tokens_given,
            tokens_used=tokens_used,
        )
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise _damaged(identity, error) from error


def verify_indexed(row: Row) -> None:
    """Of a row of `INDEXED_COLUMNS`: its vector and keywords, by their checksum. Raises DamagedRow."""
    vector, terms, weights, checksum = row[-_INDEX_COLUMN_COUNT:]
    try:
        if indexed_checksum(vector, terms, weights) != checksum:
            raise ValueError("the checksum is that of another vector or of other terms")
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(row[-_INDEX_COLUMN_COUNT - len(SAID)], error) from error


def with_vector(row: Row, vector: bytes) -> Row:
    """A row of `INDEXED_COLUMNS` with another model's vector, as it would stand in the file."""
    _, terms, weights, _ = row[-_INDEX_COLUMN_COUNT:]
    return (*row[:-_INDEX_COLUMN_COUNT], vector, terms, weights, indexed_checksum(vector, terms, weights))


def decode_indexed_memory(row: Row, *, dimension: int) -> IndexedMemory:
    """The vector is a read-only array. Raises DamagedRow."""
    memory = decode_memory(row[:-_INDEX_COLUMN_COUNT])
    verify_indexed(row)
    vector_bytes, terms_text, weight_bytes, _ = row[-_INDEX_COLUMN_COUNT:]
    try:
        vector = vector_of(vector_bytes)
        weights: list[float] = np.frombuffer(weight_bytes, "<f4").tolist()
        impacts = dict(zip(json.loads(terms_text), weights, strict=True))
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise ValueError("not a vector of this tenant's model")
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(memory.id, error) from error
    return IndexedMemory(memory, vector, impacts)


def _damaged(identity: object, error: Exception) -> DamagedRow:
    return DamagedRow(f"memory {identity!r} is not what was written: {error}")


def _decode_names(names: str) -> tuple[str, ...]:
    return () if names == NO_NAMES else tuple(json.loads(names))
