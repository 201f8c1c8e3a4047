"""Memories to rows of the ``memories`` table and back."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from precall.engine.errors import TenantQuarantined
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

MEMORY_COLUMNS: Final = (
    "m.id, r.path, m.state, m.kind, m.pinned, m.confidence, m.importance, m.event_time, m.said_time, "
    "m.valid_from, m.valid_until, m.expires_at, m.created_at, m.created_version, m.superseded_version, "
    "m.tokens_given, m.tokens_used, m.text, m.key, m.conversation_id, m.turn_id, m.uri, m.derived_from, "
    "m.questions, m.metadata"
)
"""What `decode_memory` takes, from ``memories m JOIN rungs r``."""

INDEXED_COLUMNS: Final = f"{MEMORY_COLUMNS}, m.vector, m.impact_terms, m.impact_weights"
"""What `decode_indexed_memory` takes."""

_INDEX_COLUMN_COUNT = 3


def digest(words: str) -> bytes | None:
    """What the indices hold in the place of words: 16 bytes, or None for no words."""
    return blake2b(words.encode(errors="surrogatepass"), digest_size=16).digest() if words else None


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
    prepared: PreparedMemory, *, rung: int, state: int, version: int, created_at: int
) -> dict[str, object]:
    """Column -> value. A memory that is stored as history was superseded by the version that stored it."""
    memory, source = prepared.memory, prepared.memory.source
    vector = prepared.vector.astype("<f2").tobytes()
    return {
        "id": memory.id,
        "rung": rung,
        "state": state,
        "kind": memory.kind.value,
        "pinned": int(memory.pinned),
        "confidence": float(memory.confidence),
        "importance": float(memory.importance),
        "event_time": to_unix_microseconds(memory.event_time),
        "said_time": to_unix_microseconds(memory.said_time),
        "valid_from": _encode_moment(memory.valid_from),
        "valid_until": _encode_moment(memory.valid_until),
        "expires_at": _encode_moment(memory.expires_at),
        "created_at": created_at,
        "created_version": version,
        "superseded_version": version if state == SUPERSEDED else 0,
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
        "impact_terms": _json(tuple(prepared.impacts)),
        "impact_weights": np.fromiter(prepared.impacts.values(), "<f4").tobytes(),
    }


def decode_memory(row: Row) -> Memory:
    """Raises TenantQuarantined when the row cannot have been written by `encode_memory`."""
    (
        identity, path, state, kind, pinned, confidence, importance, event_time, said_time, valid_from,
        valid_until, expires_at, created_at, created_version, superseded_version, tokens_given, tokens_used,
        text, key, conversation_id, turn_id, uri, derived_from, questions, metadata,
    ) = row  # fmt: skip
    try:
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
            created_at=from_unix_microseconds(created_at),
            tokens_given=tokens_given,
            tokens_used=tokens_used,
        )
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise TenantQuarantined(f"memory {identity!r} is damaged on disk: restore the tenant") from error


def decode_indexed_memory(row: Row, *, dimension: int) -> IndexedMemory:
    """The vector is a read-only array. Raises TenantQuarantined for a damaged row."""
    memory = decode_memory(row[:-_INDEX_COLUMN_COUNT])
    vector_bytes, terms_text, weight_bytes = row[-_INDEX_COLUMN_COUNT:]
    try:
        vector = np.frombuffer(vector_bytes, "<f2").astype(np.float16, copy=False)
        weights: list[float] = np.frombuffer(weight_bytes, "<f4").tolist()
        impacts = dict(zip(json.loads(terms_text), weights, strict=True))
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise ValueError("not a vector of this tenant's model")
    except (ValueError, TypeError) as error:
        raise TenantQuarantined(f"memory {memory.id!r} is damaged on disk: restore the tenant") from error
    return IndexedMemory(memory, vector, impacts)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encode_moment(moment: datetime | None) -> int | None:
    return None if moment is None else to_unix_microseconds(moment)


def _decode_moment(value: int | None) -> datetime | None:
    return None if value is None else from_unix_microseconds(value)
