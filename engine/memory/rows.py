"""Memories to rows of the ``memories`` table and back.

Checksums stand in each row, for SQLite has none: a disk that flips a bit inside a text or a vector leaves
a row that reads well and is wrong. What may change later (``state``, and what superseded it and when) has a
third one.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import (
    IndexedMemory,
    Memory,
    MemoryKind,
    MemoryState,
    Source,
    from_unix_microseconds,
    to_unix_microseconds,
)
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.schema import LOCAL_BYTES

CURRENT: Final = 0
SUPERSEDED: Final = 1
_STATES = (MemoryState.CURRENT, MemoryState.SUPERSEDED)

Row = Sequence[Any]
"""What SQLite hands out: its types are known to the schema, not to Python."""

_SAID = (
    "id", "kind", "pinned", "confidence", "importance", "event_time", "said_time", "valid_from",
    "valid_until", "expires_at", "created_at", "created_version", "tokens_given", "tokens_used", "text",
    "key", "conversation_id", "turn_id", "uri", "derived_from", "questions", "metadata",
)  # fmt: skip

MEMORY_COLUMNS: Final = (
    "m.state, m.superseded_version, m.superseded_at, m.fate_checksum, m.said_checksum, r.path, "
    f"m.{', m.'.join(_SAID)}"
)
"""What `decode_memory` takes, from ``memories m JOIN rungs r``."""

INDEXED_COLUMNS: Final = f"{MEMORY_COLUMNS}, m.vector, m.impact_terms, m.impact_weights, m.indexed_checksum"
"""What `decode_indexed_memory` takes."""

_INDEX_COLUMN_COUNT = 4

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once: `json.dumps` makes an encoder for each call, and a memory takes seven."""


class DamagedRow(Exception):
    """A row that `encode_memory` cannot have written; the database tells whose it is."""


def digest(words: str) -> bytes | None:
    """What the indices hold in the place of words: 16 bytes, or None for no words."""
    return blake2b(words.encode(errors="surrogatepass"), digest_size=16).digest() if words else None


def fate_checksum(state: int, superseded_version: int, superseded_at: int | None) -> int:
    """Of what changes when a memory is superseded."""
    return crc32(f"{state},{superseded_version},{superseded_at}".encode())


_CURRENT_CHECKSUM: Final = fate_checksum(CURRENT, 0, None)


def encode_rung(rung: Rung) -> str:
    return _json(rung.values)


def rungs_below(rung: Rung) -> tuple[str, str]:
    """The paths of all rungs below this one are ``first <= path < end``."""
    opened = encode_rung(rung)[:-1]
    return opened + ",", opened + "-"  # '-' comes right after ','


@lru_cache(maxsize=4096)
def decode_rung(path: str) -> Rung:
    return Rung(tuple(json.loads(path)))


def encode_memory(
    prepared: PreparedMemory,
    impacts: Mapping[str, float],
    *,
    rung: int,
    state: int,
    version: int,
    created_at: int,
) -> dict[str, object]:
    """Column -> value. A memory that is stored as history was superseded by the version that stored it."""
    memory, source = prepared.memory, prepared.memory.source
    vector = prepared.vector.astype("<f2").tobytes()
    columns: dict[str, object] = {
        "id": memory.id,
        "rung": rung,
        "state": state,
        "kind": memory.kind.value,
        "pinned": int(memory.pinned),
        "confidence": memory.confidence + 0.0,  # SQLite keeps no -0.0, and the checksum would see it go
        "importance": memory.importance + 0.0,
        "event_time": to_unix_microseconds(memory.event_time),
        "said_time": to_unix_microseconds(memory.said_time),
        "valid_from": _encode_moment(memory.valid_from),
        "valid_until": _encode_moment(memory.valid_until),
        "expires_at": _encode_moment(memory.expires_at),
        "created_at": created_at,
        "created_version": version,
        "superseded_version": version if state == SUPERSEDED else 0,
        "superseded_at": created_at if state == SUPERSEDED else None,
        "fate_checksum": (
            fate_checksum(state, version, created_at) if state == SUPERSEDED else _CURRENT_CHECKSUM
        ),
        "tokens_given": prepared.usage.given,
        "tokens_used": prepared.usage.used,
        "key_digest": digest(memory.key),
        "conversation_digest": digest(source.conversation_id),
        "uri_digest": digest(source.uri),
        "vector": vector,
        "ballast": bytes(max(0, LOCAL_BYTES - len(vector))),
        "text": memory.text,
        "key": memory.key,
        "conversation_id": source.conversation_id,
        "turn_id": source.turn_id,
        "uri": source.uri,
        "derived_from": _json(source.memory_ids),
        "questions": _json(memory.questions),
        "metadata": _json(dict(memory.metadata)),
        **_encode_impacts(impacts, vector),
    }
    said = [columns[name] for name in _SAID]
    return columns | {"said_checksum": _said_checksum(encode_rung(memory.rung), said)}


def encode_impacts(indexed: IndexedMemory) -> dict[str, object]:
    """Column -> value of those that change when a memory is weighed anew."""
    return _encode_impacts(indexed.impacts, indexed.vector.astype("<f2").tobytes())


def _encode_impacts(impacts: Mapping[str, float], vector: bytes) -> dict[str, object]:
    terms, weights = _json(tuple(impacts)), np.fromiter(impacts.values(), "<f4").tobytes()
    return {
        "impact_terms": terms,
        "impact_weights": weights,
        "indexed_checksum": _indexed_checksum(vector, terms, weights),
    }


def as_reloaded(
    prepared: PreparedMemory, impacts: Mapping[str, float], columns: Mapping[str, Any]
) -> IndexedMemory:
    """What `decode_indexed_memory` gives for a row of `encode_memory`, without asking the file for it."""
    said = prepared.memory
    memory = Memory(
        id=said.id,
        rung=said.rung,
        kind=said.kind,
        state=_STATES[columns["state"]],
        text=said.text,
        key=said.key,
        confidence=columns["confidence"],
        importance=columns["importance"],
        event_time=from_unix_microseconds(columns["event_time"]),
        said_time=from_unix_microseconds(columns["said_time"]),
        valid_from=_decode_moment(columns["valid_from"]),
        valid_until=_decode_moment(columns["valid_until"]),
        expires_at=_decode_moment(columns["expires_at"]),
        source=said.source,
        questions=said.questions,
        metadata=dict(said.metadata),
        pinned=said.pinned,
        created_version=columns["created_version"],
        superseded_version=columns["superseded_version"],
        superseded_at=_decode_moment(columns["superseded_at"]),
        created_at=from_unix_microseconds(columns["created_at"]),
        tokens_given=columns["tokens_given"],
        tokens_used=columns["tokens_used"],
    )
    return IndexedMemory(memory, _vector(columns["vector"]), impacts)


def decode_memory(row: Row) -> Memory:
    """Raises DamagedRow."""
    state, superseded_version, superseded_at, fate, checksum, path, *said = row
    (
        identity, kind, pinned, confidence, importance, event_time, said_time, valid_from, valid_until,
        expires_at, created_at, created_version, tokens_given, tokens_used, text, key,
        conversation_id, turn_id, uri, derived_from, questions, metadata,
    ) = said  # fmt: skip
    try:
        if _said_checksum(path, said) != checksum:
            raise ValueError("the checksum is that of other words")
        if fate_checksum(state, superseded_version, superseded_at) != fate:
            raise ValueError("the checksum is that of another fate")
        return Memory(
            id=identity,
            rung=decode_rung(path),
            kind=MemoryKind(kind),
            state=_STATES[state],
            text=text,
            key=key,
            confidence=confidence,
            importance=importance,
            event_time=from_unix_microseconds(event_time),
            said_time=from_unix_microseconds(said_time),
            valid_from=_decode_moment(valid_from),
            valid_until=_decode_moment(valid_until),
            expires_at=_decode_moment(expires_at),
            source=Source(conversation_id, turn_id, uri, tuple(json.loads(derived_from))),
            questions=tuple(json.loads(questions)),
            metadata=json.loads(metadata),
            pinned=bool(pinned),
            created_version=created_version,
            superseded_version=superseded_version,
            superseded_at=_decode_moment(superseded_at),
            created_at=from_unix_microseconds(created_at),
            tokens_given=tokens_given,
            tokens_used=tokens_used,
        )
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise DamagedRow(f"memory {identity!r} is not what was written: {error}") from error


def decode_indexed_memory(row: Row, *, dimension: int) -> IndexedMemory:
    """The vector is a read-only array. Raises DamagedRow."""
    memory = decode_memory(row[:-_INDEX_COLUMN_COUNT])
    vector_bytes, terms_text, weight_bytes, checksum = row[-_INDEX_COLUMN_COUNT:]
    try:
        if _indexed_checksum(vector_bytes, terms_text, weight_bytes) != checksum:
            raise ValueError("the checksum is that of another vector or of other terms")
        vector = _vector(vector_bytes)
        weights: list[float] = np.frombuffer(weight_bytes, "<f4").tolist()
        impacts = dict(zip(json.loads(terms_text), weights, strict=True))
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise ValueError("not a vector of this tenant's model")
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedRow(f"memory {memory.id!r} is not what was written: {error}") from error
    return IndexedMemory(memory, vector, impacts)


def _vector(content: bytes) -> NDArray[np.float16]:
    """A read-only array."""
    return np.frombuffer(content, "<f2").astype(np.float16, copy=False)


def _said_checksum(path: str, said: Sequence[object]) -> int:
    return crc32(_json([path, *said]).encode())


def _indexed_checksum(vector: bytes, impact_terms: str, impact_weights: bytes) -> int:
    return crc32(impact_weights, crc32(impact_terms.encode(), crc32(vector)))


def _encode_moment(moment: datetime | None) -> int | None:
    return None if moment is None else to_unix_microseconds(moment)


def _decode_moment(value: int | None) -> datetime | None:
    return None if value is None else from_unix_microseconds(value)
