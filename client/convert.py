"""Between the wire's messages and the client's own types."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from numpy.typing import NDArray

from precall.client import arguments
from precall.client.errors import InvalidInput, InvalidScope
from precall.client.memory import MEMORY_KINDS, Memory, MemoryDraft, MemorySource
from precall.client.read import ReadItem, ScoreParts, SearchResult
from precall.proto import admin_pb2, common_pb2, retrieval_pb2
from precall.scoring import vectors
from precall.scoring.ranking import Ranked

_KIND_TO_WIRE: Final = {kind: f"MEMORY_KIND_{kind.upper()}" for kind in MEMORY_KINDS}
_KIND_FROM_WIRE: Final = {common_pb2.MemoryKind.Value(name): kind for kind, name in _KIND_TO_WIRE.items()}
_VECTOR_TYPES: Final[dict[int, np.dtype[Any]]] = {
    common_pb2.VECTOR_FORMAT_UNSPECIFIED: vectors.FLOAT16,
    common_pb2.VECTOR_FORMAT_FLOAT16: vectors.FLOAT16,
    common_pb2.VECTOR_FORMAT_FLOAT32: vectors.FLOAT32,
}
_STATE_FROM_WIRE: Final = {
    common_pb2.MEMORY_STATE_CURRENT: "current",
    common_pb2.MEMORY_STATE_SUPERSEDED: "superseded",
}


def scope_to_wire(scope: Mapping[str, str]) -> common_pb2.Scope:
    """Raises InvalidScope when the scope is empty or holds anything but non-empty strings."""
    if not isinstance(scope, Mapping):
        raise InvalidScope(f"the scope must map levels to values, it is {type(scope).__name__}")
    if not scope:
        raise InvalidScope('the scope is empty: name its levels, e.g. {"customer": "acme", "user": "dana"}')
    for level, value in scope.items():
        if not _is_filled_text(level) or not _is_filled_text(value):
            raise InvalidScope(
                f"level {level!r} has the value {value!r}: both must be non-empty, well-formed strings"
            )
    return common_pb2.Scope(levels=dict(scope))


def memory_from_wire(memory: common_pb2.Memory) -> Memory:
    """A kind or state newer than this client is given as "unknown"."""
    return Memory(
        id=memory.id,
        scope=dict(memory.scope.levels),
        kind=_KIND_FROM_WIRE.get(memory.kind, "unknown"),
        state=_STATE_FROM_WIRE.get(memory.state, "unknown"),
        text=memory.text,
        key=memory.key,
        confidence=memory.confidence,
        importance=memory.importance,
        event_time=moment_from_wire(memory.event_time),
        said_time=moment_from_wire(memory.said_time),
        valid_from=_optional_moment(memory, "valid_from"),
        valid_until=_optional_moment(memory, "valid_until"),
        expires_at=_optional_moment(memory, "expires_at"),
        source=MemorySource(
            conversation_id=memory.source.conversation_id,
            turn_id=memory.source.turn_id,
            uri=memory.source.uri,
            memory_ids=tuple(memory.source.memory_ids),
        ),
        questions=tuple(memory.questions),
        metadata=dict(memory.metadata),
        pinned=memory.pinned,
        created_version=memory.created_version,
        superseded_version=memory.superseded_version,
        created_at=moment_from_wire(memory.created_at),
    )


def drafts_to_wire(drafts: Sequence[MemoryDraft], scope: common_pb2.Scope) -> list[common_pb2.MemoryInput]:
    """Raises InvalidInput as ``draft_to_wire`` does, and says which draft it is when there are several."""
    made: list[common_pb2.MemoryInput] = []
    for position, draft in enumerate(drafts):
        try:
            made.append(draft_to_wire(draft, scope))
        except InvalidInput as error:
            if len(drafts) == 1:
                raise
            raise InvalidInput(f"memory {position}: {error.message}") from error
    return made


def draft_to_wire(draft: MemoryDraft, scope: common_pb2.Scope) -> common_pb2.MemoryInput:
    """Raises InvalidInput for what no server would take: an empty text, an unknown kind, an id that is no
    UUID, a naive moment, a value of the wrong type.
    """
    if not isinstance(draft, MemoryDraft):
        raise InvalidInput(f"a memory must be a MemoryDraft, not {type(draft).__name__}")
    if not arguments.text(draft.text, "text").strip():
        raise InvalidInput("text is empty")
    message = common_pb2.MemoryInput(
        id=arguments.uuid_text(draft.id, "id") if draft.id else "",
        scope=scope,
        kind=kind_to_wire(draft.kind),
        text=draft.text,
        key=arguments.text(draft.key, "key"),
        source=_source_to_wire(draft.source),
        questions=arguments.texts(draft.questions, "questions"),
        metadata=arguments.text_map(draft.metadata, "metadata"),
        pinned=bool(draft.pinned),
    )
    for name in ("confidence", "importance"):
        value = getattr(draft, name)
        if value is not None:
            if not 0.0 <= arguments.number(value, name) <= 1.0:
                raise InvalidInput(f"{name} must lie between 0 and 1, it is {value}")
            setattr(message, name, value)
    for name in ("event_time", "said_time", "valid_from", "valid_until", "expires_at"):
        moment = getattr(draft, name)
        if moment is not None:
            getattr(message, name).CopyFrom(moment_to_wire(moment, name=name))
    return message


def kind_to_wire(kind: str) -> str:
    """Raises InvalidInput for a kind that there is not."""
    if arguments.text(kind, "kind") not in _KIND_TO_WIRE:
        raise InvalidInput(f"kind {kind!r} is unknown, use one of {', '.join(MEMORY_KINDS)}")
    return _KIND_TO_WIRE[kind]


def _source_to_wire(source: MemorySource) -> common_pb2.Source:
    if not isinstance(source, MemorySource):
        raise InvalidInput(f"source must be a MemorySource, not {type(source).__name__}")
    return common_pb2.Source(
        conversation_id=arguments.text(source.conversation_id, "source.conversation_id"),
        turn_id=arguments.text(source.turn_id, "source.turn_id"),
        uri=arguments.text(source.uri, "source.uri"),
        memory_ids=arguments.uuid_texts(source.memory_ids, "source.memory_ids"),
    )


def moment_to_wire(moment: datetime, *, name: str = "moment") -> Timestamp:
    """Raises InvalidInput for a datetime without a time zone, which names no moment, and for one that lies
    outside the years 1 to 9999 once its offset is taken off.
    """
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise InvalidInput(f"{name} has no time zone: use e.g. datetime.now(UTC)")
    wire = Timestamp()
    try:
        wire.FromDatetime(moment.astimezone(UTC))
    except OverflowError:
        raise InvalidInput(f"{name} lies outside the years 1 to 9999 in UTC") from None
    return wire


def moment_from_wire(moment: Timestamp) -> datetime:
    return moment.ToDatetime(UTC)


def utc(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)


def unix_seconds(moment: Timestamp) -> float:
    return moment.seconds + moment.nanos / 1e9


def seconds_from_wire(span: Duration) -> float:
    return span.seconds + span.nanos / 1e9


def seconds_to_wire(seconds: float) -> Duration:
    wire = Duration()
    wire.FromNanoseconds(int(seconds * 1e9))
    return wire


def servable_from(memory: common_pb2.Memory) -> float:
    """Unix seconds from which a search may return it."""
    return unix_seconds(memory.valid_from) if memory.HasField("valid_from") else float("-inf")


def servable_until(memory: common_pb2.Memory) -> float:
    """Unix seconds from which a search may no longer return it."""
    ends = [
        unix_seconds(moment)
        for name, moment in (("valid_until", memory.valid_until), ("expires_at", memory.expires_at))
        if memory.HasField(name)
    ]
    return min(ends, default=float("inf"))


def sent_vectors(message: common_pb2.Vectors) -> NDArray[np.floating]:
    """Rows in the type that they were sent in, shape ``(count, dimension)``. ValueError: damaged bytes."""
    if message.format not in _VECTOR_TYPES:
        raise ValueError(f"vector format {message.format} was not asked for")
    return vectors.from_bytes(
        message.data, count=message.count, dimension=message.dimension, dtype=_VECTOR_TYPES[message.format]
    )


def vectors_from_wire(message: common_pb2.Vectors) -> NDArray[np.float32]:
    """Rows as float32, exactly the values sent, shape ``(count, dimension)``. ValueError: damaged bytes."""
    return sent_vectors(message).astype(np.float32)


def vector_to_wire(vector: NDArray[np.float32], fingerprint: str) -> common_pb2.Vectors:
    return common_pb2.Vectors(
        data=vectors.to_bytes(vector, vectors.FLOAT32),
        count=1,
        dimension=vector.shape[0],
        format=common_pb2.VECTOR_FORMAT_FLOAT32,
        model_fingerprint=fingerprint,
    )


def frequencies_from_wire(message: common_pb2.KeywordStatistics) -> dict[str, int]:
    """Term -> documents that hold it. ValueError when terms and counts disagree in number."""
    counts = np.frombuffer(message.document_frequencies, "<u4")
    return dict(zip(message.terms, counts.tolist(), strict=True))


def score_from_ranked(ranked: Ranked) -> ScoreParts:
    return ScoreParts(
        total=ranked.total,
        relevance=ranked.relevance,
        importance=ranked.importance,
        recency=ranked.recency,
        dense=ranked.dense,
        keyword=ranked.keyword,
    )


def search_from_wire(response: retrieval_pb2.SearchResponse, *, now: datetime) -> SearchResult:
    return SearchResult(
        items=tuple(_scored_from_wire(scored, now) for scored in response.results),
        version=response.version,
        visible=response.visible,
        truncated=response.usage.truncated,
        parts=tuple(response.parts),
        model_fingerprint=response.model_fingerprint,
    )


def age(memory: Memory, now: datetime) -> timedelta:
    """Since the memory's event; an event in the future counts as just happened."""
    return max(now - memory.event_time, timedelta(0))


def enumeration_name(
    enumeration: type[admin_pb2.TenantHealth] | type[admin_pb2.KeyRole] | type[admin_pb2.MigrationState],
    number: int,
    prefix: str,
) -> str:
    """The value's own name in lower case; "unknown" for one that is unspecified or newer than this client."""
    if number == 0 or number not in enumeration.values():
        return "unknown"
    return enumeration.Name(number).removeprefix(prefix).lower()


def _is_filled_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and arguments.is_well_formed(value)


def _scored_from_wire(scored: retrieval_pb2.ScoredMemory, now: datetime) -> ReadItem:
    memory = memory_from_wire(scored.memory)
    score = scored.score
    return ReadItem(
        memory=memory,
        score=ScoreParts(
            total=score.total,
            relevance=score.relevance,
            importance=score.importance,
            recency=score.recency,
            dense=score.dense,
            keyword=score.keyword,
            rerank=score.rerank if score.HasField("rerank") else None,
        ),
        rung=scored.rung,
        age=age(memory, now),
    )


def _optional_moment(memory: common_pb2.Memory, name: str) -> datetime | None:
    return moment_from_wire(getattr(memory, name)) if memory.HasField(name) else None
