import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from precall.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InvalidationCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INVALIDATION_CAUSE_UNSPECIFIED: _ClassVar[InvalidationCause]
    INVALIDATION_CAUSE_SUPERSEDED: _ClassVar[InvalidationCause]
    INVALIDATION_CAUSE_DELETED: _ClassVar[InvalidationCause]
    INVALIDATION_CAUSE_EXPIRED: _ClassVar[InvalidationCause]
    INVALIDATION_CAUSE_REVOKED: _ClassVar[InvalidationCause]

class TurnRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_ROLE_UNSPECIFIED: _ClassVar[TurnRole]
    TURN_ROLE_USER: _ClassVar[TurnRole]
    TURN_ROLE_ASSISTANT: _ClassVar[TurnRole]
    TURN_ROLE_TOOL: _ClassVar[TurnRole]

class ReadSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_SOURCE_UNSPECIFIED: _ClassVar[ReadSource]
    READ_SOURCE_CACHE: _ClassVar[ReadSource]
    READ_SOURCE_SERVER: _ClassVar[ReadSource]
    READ_SOURCE_BOTH: _ClassVar[ReadSource]

class ReadStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READ_STATUS_UNSPECIFIED: _ClassVar[ReadStatus]
    READ_STATUS_HIT: _ClassVar[ReadStatus]
    READ_STATUS_EMPTY: _ClassVar[ReadStatus]
    READ_STATUS_DEGRADED: _ClassVar[ReadStatus]
INVALIDATION_CAUSE_UNSPECIFIED: InvalidationCause
INVALIDATION_CAUSE_SUPERSEDED: InvalidationCause
INVALIDATION_CAUSE_DELETED: InvalidationCause
INVALIDATION_CAUSE_EXPIRED: InvalidationCause
INVALIDATION_CAUSE_REVOKED: InvalidationCause
TURN_ROLE_UNSPECIFIED: TurnRole
TURN_ROLE_USER: TurnRole
TURN_ROLE_ASSISTANT: TurnRole
TURN_ROLE_TOOL: TurnRole
READ_SOURCE_UNSPECIFIED: ReadSource
READ_SOURCE_CACHE: ReadSource
READ_SOURCE_SERVER: ReadSource
READ_SOURCE_BOTH: ReadSource
READ_STATUS_UNSPECIFIED: ReadStatus
READ_STATUS_HIT: ReadStatus
READ_STATUS_EMPTY: ReadStatus
READ_STATUS_DEGRADED: ReadStatus

class WatchRequest(_message.Message):
    __slots__ = ("stream_id", "client_version")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    client_version: str
    def __init__(self, stream_id: _Optional[str] = ..., client_version: _Optional[str] = ...) -> None: ...

class WatchEvent(_message.Message):
    __slots__ = ("sequence", "confirm", "opened", "push", "invalidation", "heartbeat", "session_ended", "draining")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    INVALIDATION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SESSION_ENDED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    confirm: bool
    opened: StreamOpened
    push: Push
    invalidation: Invalidation
    heartbeat: Heartbeat
    session_ended: SessionEnded
    draining: Draining
    def __init__(self, sequence: _Optional[int] = ..., confirm: bool = ..., opened: _Optional[_Union[StreamOpened, _Mapping]] = ..., push: _Optional[_Union[Push, _Mapping]] = ..., invalidation: _Optional[_Union[Invalidation, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., session_ended: _Optional[_Union[SessionEnded, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ...) -> None: ...

class StreamOpened(_message.Message):
    __slots__ = ("heartbeat_interval", "lease", "model_fingerprint", "server_time", "maximum_age", "model_scripts", "scoring_version")
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_AGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_SCRIPTS_FIELD_NUMBER: _ClassVar[int]
    SCORING_VERSION_FIELD_NUMBER: _ClassVar[int]
    heartbeat_interval: _duration_pb2.Duration
    lease: _duration_pb2.Duration
    model_fingerprint: str
    server_time: _timestamp_pb2.Timestamp
    maximum_age: _duration_pb2.Duration
    model_scripts: _containers.RepeatedScalarFieldContainer[str]
    scoring_version: int
    def __init__(self, heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., model_fingerprint: _Optional[str] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., maximum_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., model_scripts: _Optional[_Iterable[str]] = ..., scoring_version: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("version", "server_time")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    version: int
    server_time: _timestamp_pb2.Timestamp
    def __init__(self, version: _Optional[int] = ..., server_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("grace",)
    GRACE_FIELD_NUMBER: _ClassVar[int]
    grace: _duration_pb2.Duration
    def __init__(self, grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SessionEnded(_message.Message):
    __slots__ = ("session_id", "reason")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    reason: str
    def __init__(self, session_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Push(_message.Message):
    __slots__ = ("session_id", "push_id", "reset", "last", "items", "evicted_ids", "vectors", "version", "coverage", "rungs", "caused_at", "caused_by_sequence", "retired_coverage_ids", "resumed")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PUSH_ID_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    EVICTED_IDS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    RUNGS_FIELD_NUMBER: _ClassVar[int]
    CAUSED_AT_FIELD_NUMBER: _ClassVar[int]
    CAUSED_BY_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RETIRED_COVERAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    push_id: int
    reset: bool
    last: bool
    items: _containers.RepeatedCompositeFieldContainer[PushedItem]
    evicted_ids: _containers.RepeatedScalarFieldContainer[str]
    vectors: _common_pb2.Vectors
    version: int
    coverage: Coverage
    rungs: _containers.RepeatedCompositeFieldContainer[RungClaim]
    caused_at: _timestamp_pb2.Timestamp
    caused_by_sequence: int
    retired_coverage_ids: _containers.RepeatedScalarFieldContainer[int]
    resumed: bool
    def __init__(self, session_id: _Optional[str] = ..., push_id: _Optional[int] = ..., reset: bool = ..., last: bool = ..., items: _Optional[_Iterable[_Union[PushedItem, _Mapping]]] = ..., evicted_ids: _Optional[_Iterable[str]] = ..., vectors: _Optional[_Union[_common_pb2.Vectors, _Mapping]] = ..., version: _Optional[int] = ..., coverage: _Optional[_Union[Coverage, _Mapping]] = ..., rungs: _Optional[_Iterable[_Union[RungClaim, _Mapping]]] = ..., caused_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., caused_by_sequence: _Optional[int] = ..., retired_coverage_ids: _Optional[_Iterable[int]] = ..., resumed: bool = ...) -> None: ...

class PushedItem(_message.Message):
    __slots__ = ("memory", "rung", "impacts", "predictor", "vector_codes", "stamp")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    RUNG_FIELD_NUMBER: _ClassVar[int]
    IMPACTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    VECTOR_CODES_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    memory: _common_pb2.Memory
    rung: str
    impacts: _common_pb2.KeywordImpacts
    predictor: str
    vector_codes: bytes
    stamp: int
    def __init__(self, memory: _Optional[_Union[_common_pb2.Memory, _Mapping]] = ..., rung: _Optional[str] = ..., impacts: _Optional[_Union[_common_pb2.KeywordImpacts, _Mapping]] = ..., predictor: _Optional[str] = ..., vector_codes: _Optional[bytes] = ..., stamp: _Optional[int] = ...) -> None: ...

class Coverage(_message.Message):
    __slots__ = ("query_vector", "query_terms", "floor", "version", "predictor", "coverage_id", "keyword_share", "negated")
    QUERY_VECTOR_FIELD_NUMBER: _ClassVar[int]
    QUERY_TERMS_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PREDICTOR_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYWORD_SHARE_FIELD_NUMBER: _ClassVar[int]
    NEGATED_FIELD_NUMBER: _ClassVar[int]
    query_vector: _common_pb2.Vectors
    query_terms: _containers.RepeatedScalarFieldContainer[str]
    floor: float
    version: int
    predictor: str
    coverage_id: int
    keyword_share: float
    negated: bool
    def __init__(self, query_vector: _Optional[_Union[_common_pb2.Vectors, _Mapping]] = ..., query_terms: _Optional[_Iterable[str]] = ..., floor: _Optional[float] = ..., version: _Optional[int] = ..., predictor: _Optional[str] = ..., coverage_id: _Optional[int] = ..., keyword_share: _Optional[float] = ..., negated: bool = ...) -> None: ...

class RungClaim(_message.Message):
    __slots__ = ("rung", "complete", "memories", "statistics", "vocabulary")
    RUNG_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    rung: str
    complete: bool
    memories: int
    statistics: _common_pb2.KeywordStatistics
    vocabulary: bytes
    def __init__(self, rung: _Optional[str] = ..., complete: bool = ..., memories: _Optional[int] = ..., statistics: _Optional[_Union[_common_pb2.KeywordStatistics, _Mapping]] = ..., vocabulary: _Optional[bytes] = ...) -> None: ...

class Invalidation(_message.Message):
    __slots__ = ("memory_ids", "version", "cause", "session_ids")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    version: int
    cause: InvalidationCause
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ..., cause: _Optional[_Union[InvalidationCause, str]] = ..., session_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("stream_id", "session_id", "conversation_id", "scope", "max_items", "max_bytes", "vector_format", "held_ids", "held_stamps", "attempt")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FORMAT_FIELD_NUMBER: _ClassVar[int]
    HELD_IDS_FIELD_NUMBER: _ClassVar[int]
    HELD_STAMPS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    session_id: str
    conversation_id: str
    scope: _common_pb2.Scope
    max_items: int
    max_bytes: int
    vector_format: _common_pb2.VectorFormat
    held_ids: _containers.RepeatedScalarFieldContainer[str]
    held_stamps: _containers.RepeatedScalarFieldContainer[int]
    attempt: int
    def __init__(self, stream_id: _Optional[str] = ..., session_id: _Optional[str] = ..., conversation_id: _Optional[str] = ..., scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., max_items: _Optional[int] = ..., max_bytes: _Optional[int] = ..., vector_format: _Optional[_Union[_common_pb2.VectorFormat, str]] = ..., held_ids: _Optional[_Iterable[str]] = ..., held_stamps: _Optional[_Iterable[int]] = ..., attempt: _Optional[int] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("version", "model_fingerprint", "ladder", "resumed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    LADDER_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    version: int
    model_fingerprint: str
    ladder: _containers.RepeatedScalarFieldContainer[str]
    resumed: bool
    def __init__(self, version: _Optional[int] = ..., model_fingerprint: _Optional[str] = ..., ladder: _Optional[_Iterable[str]] = ..., resumed: bool = ...) -> None: ...

class ObserveTurnRequest(_message.Message):
    __slots__ = ("session_id", "sequence", "role", "text", "partial", "turn_id", "said_time", "used_memory_ids", "query_vector")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SAID_TIME_FIELD_NUMBER: _ClassVar[int]
    USED_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    QUERY_VECTOR_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    sequence: int
    role: TurnRole
    text: str
    partial: bool
    turn_id: str
    said_time: _timestamp_pb2.Timestamp
    used_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    query_vector: _common_pb2.Vectors
    def __init__(self, session_id: _Optional[str] = ..., sequence: _Optional[int] = ..., role: _Optional[_Union[TurnRole, str]] = ..., text: _Optional[str] = ..., partial: bool = ..., turn_id: _Optional[str] = ..., said_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., used_memory_ids: _Optional[_Iterable[str]] = ..., query_vector: _Optional[_Union[_common_pb2.Vectors, _Mapping]] = ...) -> None: ...

class ObserveTurnResponse(_message.Message):
    __slots__ = ("sequence", "replayed")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    replayed: bool
    def __init__(self, sequence: _Optional[int] = ..., replayed: bool = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("stream_id", "applied_sequence")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    APPLIED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    applied_sequence: int
    def __init__(self, stream_id: _Optional[str] = ..., applied_sequence: _Optional[int] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReadReport(_message.Message):
    __slots__ = ("session_id", "source", "status", "elapsed", "decision", "items", "used_predictors", "staleness", "encode", "checked_wrong", "served_ids")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    USED_PREDICTORS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    ENCODE_FIELD_NUMBER: _ClassVar[int]
    CHECKED_WRONG_FIELD_NUMBER: _ClassVar[int]
    SERVED_IDS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    source: ReadSource
    status: ReadStatus
    elapsed: _duration_pb2.Duration
    decision: str
    items: int
    used_predictors: _containers.RepeatedScalarFieldContainer[str]
    staleness: _duration_pb2.Duration
    encode: _duration_pb2.Duration
    checked_wrong: bool
    served_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session_id: _Optional[str] = ..., source: _Optional[_Union[ReadSource, str]] = ..., status: _Optional[_Union[ReadStatus, str]] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., decision: _Optional[str] = ..., items: _Optional[int] = ..., used_predictors: _Optional[_Iterable[str]] = ..., staleness: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., encode: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., checked_wrong: bool = ..., served_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PushReport(_message.Message):
    __slots__ = ("session_id", "push_id", "lead", "items")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PUSH_ID_FIELD_NUMBER: _ClassVar[int]
    LEAD_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    push_id: int
    lead: _duration_pb2.Duration
    items: int
    def __init__(self, session_id: _Optional[str] = ..., push_id: _Optional[int] = ..., lead: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., items: _Optional[int] = ...) -> None: ...

class ReportReadsRequest(_message.Message):
    __slots__ = ("reads", "pushes")
    READS_FIELD_NUMBER: _ClassVar[int]
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    reads: _containers.RepeatedCompositeFieldContainer[ReadReport]
    pushes: _containers.RepeatedCompositeFieldContainer[PushReport]
    def __init__(self, reads: _Optional[_Iterable[_Union[ReadReport, _Mapping]]] = ..., pushes: _Optional[_Iterable[_Union[PushReport, _Mapping]]] = ...) -> None: ...

class ReportReadsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
