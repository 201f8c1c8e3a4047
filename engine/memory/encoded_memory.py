"""Memories on their way into rows of the ``memories`` table."""

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

import numpy as np

from precall.engine.memory.memory import (
    IndexedMemory,
    Memory,
    from_unix_microseconds,
    to_unix_microseconds,
)
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.rows import (
    CURRENT_CHECKSUM,
    NO_ENTRIES,
    NO_NAMES,
    SAID,
    STATES,
    SUPERSEDED,
    decode_moment,
    digest,
    encode_json,
    encode_rung,
    fate_checksum,
    indexed_checksum,
    said_bytes,
    vector_of,
)
from precall.engine.memory.schema import LOCAL_BYTES

_said_of: Final = itemgetter(*SAID)


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
            fate_checksum(state, version, created_at) if state == SUPERSEDED else CURRENT_CHECKSUM
        ),
        "tokens_given": prepared.usage.given,
        "tokens_used": prepared.usage.used,
        "key_digest": digest(memory.key),
        "conversation_digest": digest(source.conversation_id),
        "uri_digest": digest(source.uri),
        "vector": vector,
        "ballast": ballast(vector),
        "text": memory.text,
        "key": memory.key,
        "conversation_id": source.conversation_id,
        "turn_id": source.turn_id,
        "uri": source.uri,
        "derived_from": encode_json(source.memory_ids) if source.memory_ids else NO_NAMES,
        "questions": encode_json(memory.questions) if memory.questions else NO_NAMES,
        "metadata": encode_json(dict(memory.metadata)) if memory.metadata else NO_ENTRIES,
        **encode_impacts(impacts, vector),
    }
    columns["said_checksum"] = crc32(said_bytes(encode_rung(memory.rung), _said_of(columns)))
    return columns


def ballast(vector: bytes) -> bytes:
    """What keeps words out of the b-tree behind a short vector."""
    return bytes(max(0, LOCAL_BYTES - len(vector)))


def encode_impacts(impacts: Mapping[str, float], vector: bytes) -> dict[str, object]:
    """Column -> value of those that change when a memory is weighed anew. ``vector``: as it stands in its
    row.
    """
    terms, weights = encode_json(tuple(impacts)), np.fromiter(impacts.values(), "<f4").tobytes()
    return {
        "impact_terms": terms,
        "impact_weights": weights,
        "indexed_checksum": indexed_checksum(vector, terms, weights),
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
        state=STATES[columns["state"]],
        text=said.text,
        key=said.key,
        confidence=columns["confidence"],
        importance=columns["importance"],
        event_time=_in_utc(said.event_time),
        said_time=_in_utc(said.said_time),
        valid_from=said.valid_from and _in_utc(said.valid_from),
        valid_until=said.valid_until and _in_utc(said.valid_until),
        expires_at=said.expires_at and _in_utc(said.expires_at),
        source=said.source,
        questions=said.questions,
        metadata=dict(said.metadata),
        pinned=said.pinned,
        created_version=columns["created_version"],
        superseded_version=columns["superseded_version"],
        superseded_at=decode_moment(columns["superseded_at"]),
        created_at=from_unix_microseconds(columns["created_at"]),
        tokens_given=columns["tokens_given"],
        tokens_used=columns["tokens_used"],
    )
    return IndexedMemory(memory, vector_of(columns["vector"]), impacts)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def _encode_moment(moment: datetime | None) -> int | None:
    return None if moment is None else to_unix_microseconds(moment)
