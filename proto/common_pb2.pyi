import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VectorFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VECTOR_FORMAT_UNSPECIFIED: _ClassVar[VectorFormat]
    VECTOR_FORMAT_FLOAT32: _ClassVar[VectorFormat]
    VECTOR_FORMAT_FLOAT16: _ClassVar[VectorFormat]
    VECTOR_FORMAT_INT8: _ClassVar[VectorFormat]

class MemoryKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_KIND_UNSPECIFIED: _ClassVar[MemoryKind]
    MEMORY_KIND_FACT: _ClassVar[MemoryKind]
    MEMORY_KIND_PREFERENCE: _ClassVar[MemoryKind]
    MEMORY_KIND_EPISODE: _ClassVar[MemoryKind]
    MEMORY_KIND_EMOTION: _ClassVar[MemoryKind]
    MEMORY_KIND_EVENT: _ClassVar[MemoryKind]
    MEMORY_KIND_DOCUMENT: _ClassVar[MemoryKind]

class MemoryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_STATE_UNSPECIFIED: _ClassVar[MemoryState]
    MEMORY_STATE_CURRENT: _ClassVar[MemoryState]
    MEMORY_STATE_SUPERSEDED: _ClassVar[MemoryState]
VECTOR_FORMAT_UNSPECIFIED: VectorFormat
VECTOR_FORMAT_FLOAT32: VectorFormat
VECTOR_FORMAT_FLOAT16: VectorFormat
VECTOR_FORMAT_INT8: VectorFormat
MEMORY_KIND_UNSPECIFIED: MemoryKind
MEMORY_KIND_FACT: MemoryKind
MEMORY_KIND_PREFERENCE: MemoryKind
MEMORY_KIND_EPISODE: MemoryKind
MEMORY_KIND_EMOTION: MemoryKind
MEMORY_KIND_EVENT: MemoryKind
MEMORY_KIND_DOCUMENT: MemoryKind
MEMORY_STATE_UNSPECIFIED: MemoryState
MEMORY_STATE_CURRENT: MemoryState
MEMORY_STATE_SUPERSEDED: MemoryState

class Scope(_message.Message):
    __slots__ = ("levels",)
    class LevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.ScalarMap[str, str]
    def __init__(self, levels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Vectors(_message.Message):
    __slots__ = ("data", "count", "dimension", "format", "model_fingerprint")
    DATA_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    count: int
    dimension: int
    format: VectorFormat
    model_fingerprint: str
    def __init__(self, data: _Optional[bytes] = ..., count: _Optional[int] = ..., dimension: _Optional[int] = ..., format: _Optional[_Union[VectorFormat, str]] = ..., model_fingerprint: _Optional[str] = ...) -> None: ...

class TokenUsage(_message.Message):
    __slots__ = ("given", "used", "truncated")
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    given: int
    used: int
    truncated: bool
    def __init__(self, given: _Optional[int] = ..., used: _Optional[int] = ..., truncated: bool = ...) -> None: ...

class StageTiming(_message.Message):
    __slots__ = ("stage", "duration")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    stage: str
    duration: _duration_pb2.Duration
    def __init__(self, stage: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ItemError(_message.Message):
    __slots__ = ("position", "reason", "message")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    position: int
    reason: str
    message: str
    def __init__(self, position: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "uri", "memory_ids")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    uri: str
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., uri: _Optional[str] = ..., memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class MemoryInput(_message.Message):
    __slots__ = ("id", "scope", "kind", "text", "key", "confidence", "importance", "event_time", "said_time", "valid_from", "valid_until", "expires_at", "source", "questions", "metadata", "pinned", "vector")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    SAID_TIME_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    id: str
    scope: Scope
    kind: MemoryKind
    text: str
    key: str
    confidence: float
    importance: float
    event_time: _timestamp_pb2.Timestamp
    said_time: _timestamp_pb2.Timestamp
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    source: Source
    questions: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    pinned: bool
    vector: Vectors
    def __init__(self, id: _Optional[str] = ..., scope: _Optional[_Union[Scope, _Mapping]] = ..., kind: _Optional[_Union[MemoryKind, str]] = ..., text: _Optional[str] = ..., key: _Optional[str] = ..., confidence: _Optional[float] = ..., importance: _Optional[float] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., said_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[_Union[Source, _Mapping]] = ..., questions: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., pinned: bool = ..., vector: _Optional[_Union[Vectors, _Mapping]] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("id", "scope", "kind", "state", "text", "key", "confidence", "importance", "event_time", "said_time", "valid_from", "valid_until", "expires_at", "source", "questions", "metadata", "pinned", "created_version", "superseded_version", "created_at", "usage")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    SAID_TIME_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    CREATED_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    scope: Scope
    kind: MemoryKind
    state: MemoryState
    text: str
    key: str
    confidence: float
    importance: float
    event_time: _timestamp_pb2.Timestamp
    said_time: _timestamp_pb2.Timestamp
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    source: Source
    questions: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    pinned: bool
    created_version: int
    superseded_version: int
    created_at: _timestamp_pb2.Timestamp
    usage: TokenUsage
    def __init__(self, id: _Optional[str] = ..., scope: _Optional[_Union[Scope, _Mapping]] = ..., kind: _Optional[_Union[MemoryKind, str]] = ..., state: _Optional[_Union[MemoryState, str]] = ..., text: _Optional[str] = ..., key: _Optional[str] = ..., confidence: _Optional[float] = ..., importance: _Optional[float] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., said_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[_Union[Source, _Mapping]] = ..., questions: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., pinned: bool = ..., created_version: _Optional[int] = ..., superseded_version: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("kinds", "metadata", "event_from", "event_until", "conversation_ids", "keys", "pinned_only")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KINDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    EVENT_FROM_FIELD_NUMBER: _ClassVar[int]
    EVENT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_IDS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PINNED_ONLY_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[MemoryKind]
    metadata: _containers.ScalarMap[str, str]
    event_from: _timestamp_pb2.Timestamp
    event_until: _timestamp_pb2.Timestamp
    conversation_ids: _containers.RepeatedScalarFieldContainer[str]
    keys: _containers.RepeatedScalarFieldContainer[str]
    pinned_only: bool
    def __init__(self, kinds: _Optional[_Iterable[_Union[MemoryKind, str]]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., event_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., event_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., conversation_ids: _Optional[_Iterable[str]] = ..., keys: _Optional[_Iterable[str]] = ..., pinned_only: bool = ...) -> None: ...

class ScoreParts(_message.Message):
    __slots__ = ("total", "relevance", "importance", "recency", "dense", "keyword", "rerank")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    RECENCY_FIELD_NUMBER: _ClassVar[int]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    KEYWORD_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    total: float
    relevance: float
    importance: float
    recency: float
    dense: float
    keyword: float
    rerank: float
    def __init__(self, total: _Optional[float] = ..., relevance: _Optional[float] = ..., importance: _Optional[float] = ..., recency: _Optional[float] = ..., dense: _Optional[float] = ..., keyword: _Optional[float] = ..., rerank: _Optional[float] = ...) -> None: ...

class RankingWeights(_message.Message):
    __slots__ = ("relevance", "importance", "recency", "half_life")
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    RECENCY_FIELD_NUMBER: _ClassVar[int]
    HALF_LIFE_FIELD_NUMBER: _ClassVar[int]
    relevance: float
    importance: float
    recency: float
    half_life: _duration_pb2.Duration
    def __init__(self, relevance: _Optional[float] = ..., importance: _Optional[float] = ..., recency: _Optional[float] = ..., half_life: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class KeywordImpacts(_message.Message):
    __slots__ = ("terms", "weights")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    terms: _containers.RepeatedScalarFieldContainer[str]
    weights: bytes
    def __init__(self, terms: _Optional[_Iterable[str]] = ..., weights: _Optional[bytes] = ...) -> None: ...

class KeywordStatistics(_message.Message):
    __slots__ = ("documents", "terms", "document_frequencies")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    documents: int
    terms: _containers.RepeatedScalarFieldContainer[str]
    document_frequencies: bytes
    def __init__(self, documents: _Optional[int] = ..., terms: _Optional[_Iterable[str]] = ..., document_frequencies: _Optional[bytes] = ...) -> None: ...
