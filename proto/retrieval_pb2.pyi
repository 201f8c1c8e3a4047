import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from precall.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SearchMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEARCH_MODE_UNSPECIFIED: _ClassVar[SearchMode]
    SEARCH_MODE_FAST: _ClassVar[SearchMode]
    SEARCH_MODE_ACCURATE: _ClassVar[SearchMode]
SEARCH_MODE_UNSPECIFIED: SearchMode
SEARCH_MODE_FAST: SearchMode
SEARCH_MODE_ACCURATE: SearchMode

class SearchRequest(_message.Message):
    __slots__ = ("scope", "query", "query_vector", "mode", "limit", "filter", "as_of", "min_version", "weights", "truncate", "ranked_at")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    QUERY_VECTOR_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    RANKED_AT_FIELD_NUMBER: _ClassVar[int]
    scope: _common_pb2.Scope
    query: str
    query_vector: _common_pb2.Vectors
    mode: SearchMode
    limit: int
    filter: _common_pb2.Filter
    as_of: _timestamp_pb2.Timestamp
    min_version: int
    weights: _common_pb2.RankingWeights
    truncate: bool
    ranked_at: _timestamp_pb2.Timestamp
    def __init__(self, scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., query: _Optional[str] = ..., query_vector: _Optional[_Union[_common_pb2.Vectors, _Mapping]] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., limit: _Optional[int] = ..., filter: _Optional[_Union[_common_pb2.Filter, _Mapping]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_version: _Optional[int] = ..., weights: _Optional[_Union[_common_pb2.RankingWeights, _Mapping]] = ..., truncate: bool = ..., ranked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("results", "version", "model_fingerprint", "usage", "timings", "visible", "parts")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ScoredMemory]
    version: int
    model_fingerprint: str
    usage: _common_pb2.TokenUsage
    timings: _containers.RepeatedCompositeFieldContainer[_common_pb2.StageTiming]
    visible: int
    parts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, results: _Optional[_Iterable[_Union[ScoredMemory, _Mapping]]] = ..., version: _Optional[int] = ..., model_fingerprint: _Optional[str] = ..., usage: _Optional[_Union[_common_pb2.TokenUsage, _Mapping]] = ..., timings: _Optional[_Iterable[_Union[_common_pb2.StageTiming, _Mapping]]] = ..., visible: _Optional[int] = ..., parts: _Optional[_Iterable[str]] = ...) -> None: ...

class ScoredMemory(_message.Message):
    __slots__ = ("memory", "score", "rung", "legs")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    RUNG_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    memory: _common_pb2.Memory
    score: _common_pb2.ScoreParts
    rung: str
    legs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory: _Optional[_Union[_common_pb2.Memory, _Mapping]] = ..., score: _Optional[_Union[_common_pb2.ScoreParts, _Mapping]] = ..., rung: _Optional[str] = ..., legs: _Optional[_Iterable[str]] = ...) -> None: ...
