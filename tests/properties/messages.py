"""Memories, sources and filters as messages, and what comes back."""

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import MemoryKind, NewMemory, Source
from precall.proto import common_pb2
from precall.server.mapping.values import scope_of, timestamp
from tests.properties.service import LEVELS, Given, Seen


def kind_value(kind: MemoryKind) -> common_pb2.MemoryKind:
    return common_pb2.MemoryKind.Value(f"MEMORY_KIND_{kind.name}")  # type: ignore[no-any-return]


def source_message(source: Source) -> common_pb2.Source:
    return common_pb2.Source(
        conversation_id=source.conversation_id,
        turn_id=source.turn_id,
        uri=source.uri,
        memory_ids=source.memory_ids,
    )


def vector_message(given: Given) -> common_pb2.Vectors:
    return common_pb2.Vectors(
        data=given.vector.astype("<f4").tobytes(),
        count=1,
        dimension=len(given.vector),
        format=common_pb2.VECTOR_FORMAT_FLOAT32,
        model_fingerprint=given.fingerprint,
    )


def input_message(memory: NewMemory, ladder: Ladder, given: Given | None) -> common_pb2.MemoryInput:
    message = common_pb2.MemoryInput(
        id=memory.id,
        scope=scope_of(memory.rung, ladder),
        kind=kind_value(memory.kind),
        text=memory.text,
        key=memory.key,
        confidence=memory.confidence,
        importance=memory.importance,
        source=source_message(memory.source),
        questions=memory.questions,
        metadata=dict(memory.metadata),
        pinned=memory.pinned,
    )
    if given is not None:
        message.vector.CopyFrom(vector_message(given))
    for name in ("event_time", "said_time", "valid_from", "valid_until", "expires_at"):
        if (moment := getattr(memory, name)) is not None:
            getattr(message, name).CopyFrom(timestamp(moment))
    return message


def filter_message(asked: MemoryFilter) -> common_pb2.Filter:
    message = common_pb2.Filter(
        kinds=map(kind_value, asked.kinds),
        metadata=dict(asked.metadata),
        conversation_ids=asked.conversation_ids,
        keys=asked.keys,
        pinned_only=asked.pinned_only,
    )
    for name in ("event_from", "event_until"):
        if (moment := getattr(asked, name)) is not None:
            getattr(message, name).CopyFrom(timestamp(moment))
    return message


def seen(message: common_pb2.Memory) -> Seen:
    levels = dict(message.scope.levels)
    rung = Rung(tuple(levels[level] for level in LEVELS if level in levels))
    current = message.state == common_pb2.MEMORY_STATE_CURRENT
    return Seen(message.id, rung, message.text, message.key, current)
