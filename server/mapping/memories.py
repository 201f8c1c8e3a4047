"""Memories on their way in and out."""

import uuid
from datetime import datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from precall.engine.errors import InvalidInput
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.memory import Memory, MemoryKind, MemoryState, NewMemory, Source
from precall.proto import common_pb2
from precall.server.mapping.values import (
    enumerated,
    moment,
    optional_uuid,
    rung_of,
    scope_of,
    timestamp,
    uuid_list,
)

_WIRE_KINDS: Final = {
    MemoryKind.FACT: common_pb2.MEMORY_KIND_FACT,
    MemoryKind.PREFERENCE: common_pb2.MEMORY_KIND_PREFERENCE,
    MemoryKind.EPISODE: common_pb2.MEMORY_KIND_EPISODE,
    MemoryKind.EMOTION: common_pb2.MEMORY_KIND_EMOTION,
    MemoryKind.EVENT: common_pb2.MEMORY_KIND_EVENT,
    MemoryKind.DOCUMENT: common_pb2.MEMORY_KIND_DOCUMENT,
}
_KINDS: Final[dict[int, MemoryKind]] = {
    common_pb2.MEMORY_KIND_UNSPECIFIED: MemoryKind.FACT,
    **{wire: kind for kind, wire in _WIRE_KINDS.items()},
}
_WIRE_STATES: Final = {
    MemoryState.CURRENT: common_pb2.MEMORY_STATE_CURRENT,
    MemoryState.SUPERSEDED: common_pb2.MEMORY_STATE_SUPERSEDED,
}


def new_memory(message: common_pb2.MemoryInput, ladder: Ladder, *, now: datetime) -> NewMemory:
    """What a writer says, with what it left open filled in. Raises InvalidInput, InvalidScope."""
    said_time = _moment_of(message, "said_time") or now
    return NewMemory(
        id=optional_uuid(message.id, "id") or str(uuid.uuid4()),
        rung=rung_of(message.scope, ladder),
        text=message.text,
        event_time=_moment_of(message, "event_time") or said_time,
        said_time=said_time,
        kind=enumerated(message.kind, _KINDS, "kind"),
        key=message.key,
        confidence=_share(message.confidence) if message.HasField("confidence") else 1.0,
        importance=_share(message.importance) if message.HasField("importance") else 0.5,
        valid_from=_moment_of(message, "valid_from"),
        valid_until=_moment_of(message, "valid_until"),
        expires_at=_moment_of(message, "expires_at"),
        source=source_of(message.source),
        questions=tuple(message.questions),
        metadata=dict(message.metadata),
        pinned=message.pinned,
    )


def source_of(message: common_pb2.Source) -> Source:
    """Raises InvalidInput."""
    return Source(
        conversation_id=message.conversation_id,
        turn_id=message.turn_id,
        uri=message.uri,
        memory_ids=(tuple(uuid_list(message.memory_ids, "source.memory_ids")) if message.memory_ids else ()),
    )


def memory_message(memory: Memory, ladder: Ladder) -> common_pb2.Memory:
    """A stored memory as clients see it."""
    message = common_pb2.Memory(
        id=memory.id,
        scope=scope_of(memory.rung, ladder),
        kind=_WIRE_KINDS[memory.kind],
        state=state_message(memory.state),
        text=memory.text,
        key=memory.key,
        confidence=memory.confidence,
        importance=memory.importance,
        event_time=timestamp(memory.event_time),
        said_time=timestamp(memory.said_time),
        valid_from=_optional(memory.valid_from),
        valid_until=_optional(memory.valid_until),
        expires_at=_optional(memory.expires_at),
        questions=memory.questions,
        metadata=dict(memory.metadata),
        pinned=memory.pinned,
        created_version=memory.created_version,
        superseded_version=memory.superseded_version,
        created_at=timestamp(memory.created_at),
        usage=common_pb2.TokenUsage(
            given=memory.tokens_given,
            used=memory.tokens_used,
            truncated=memory.tokens_used < memory.tokens_given,
        ),
    )
    if memory.source != Source():
        message.source.CopyFrom(_source_message(memory.source))
    return message


def kind_of(value: int, field: str) -> MemoryKind:
    """One that is asked for, not left open. Raises InvalidInput."""
    if value == common_pb2.MEMORY_KIND_UNSPECIFIED:
        raise InvalidInput(f"{field} holds a kind that is unspecified: name one, or leave it out")
    return enumerated(value, _KINDS, field)


def state_message(state: MemoryState) -> common_pb2.MemoryState:
    return _WIRE_STATES[state]


def _source_message(source: Source) -> common_pb2.Source:
    return common_pb2.Source(
        conversation_id=source.conversation_id,
        turn_id=source.turn_id,
        uri=source.uri,
        memory_ids=source.memory_ids,
    )


def _moment_of(message: common_pb2.MemoryInput, field: str) -> datetime | None:
    if not message.HasField(field):
        return None
    value: Timestamp = getattr(message, field)
    return moment(value, field)


def _optional(value: datetime | None) -> Timestamp | None:
    return None if value is None else timestamp(value)


def _share(value: float) -> float:
    """The shortest decimal that a float32 stands for: 0.3 on the wire is 0.3 here."""
    return float(f"{value:.7g}")
