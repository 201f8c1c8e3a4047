import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from precall.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WriteMemoriesRequest(_message.Message):
    __slots__ = ("memories", "request_id", "truncate")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[_common_pb2.MemoryInput]
    request_id: str
    truncate: bool
    def __init__(self, memories: _Optional[_Iterable[_Union[_common_pb2.MemoryInput, _Mapping]]] = ..., request_id: _Optional[str] = ..., truncate: bool = ...) -> None: ...

class WriteMemoriesResponse(_message.Message):
    __slots__ = ("version", "written", "timings", "replayed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    version: int
    written: _containers.RepeatedCompositeFieldContainer[WrittenMemory]
    timings: _containers.RepeatedCompositeFieldContainer[_common_pb2.StageTiming]
    replayed: bool
    def __init__(self, version: _Optional[int] = ..., written: _Optional[_Iterable[_Union[WrittenMemory, _Mapping]]] = ..., timings: _Optional[_Iterable[_Union[_common_pb2.StageTiming, _Mapping]]] = ..., replayed: bool = ...) -> None: ...

class WrittenMemory(_message.Message):
    __slots__ = ("id", "state", "superseded_ids", "usage")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_IDS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: _common_pb2.MemoryState
    superseded_ids: _containers.RepeatedScalarFieldContainer[str]
    usage: _common_pb2.TokenUsage
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[_common_pb2.MemoryState, str]] = ..., superseded_ids: _Optional[_Iterable[str]] = ..., usage: _Optional[_Union[_common_pb2.TokenUsage, _Mapping]] = ...) -> None: ...

class GetMemoriesRequest(_message.Message):
    __slots__ = ("ids", "scope", "min_version")
    IDS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    scope: _common_pb2.Scope
    min_version: int
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., min_version: _Optional[int] = ...) -> None: ...

class GetMemoriesResponse(_message.Message):
    __slots__ = ("memories", "missing_ids", "version")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    MISSING_IDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[_common_pb2.Memory]
    missing_ids: _containers.RepeatedScalarFieldContainer[str]
    version: int
    def __init__(self, memories: _Optional[_Iterable[_Union[_common_pb2.Memory, _Mapping]]] = ..., missing_ids: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ...) -> None: ...

class ListMemoriesRequest(_message.Message):
    __slots__ = ("scope", "filter", "page_size", "page_token", "include_history", "as_of")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_HISTORY_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    scope: _common_pb2.Scope
    filter: _common_pb2.Filter
    page_size: int
    page_token: str
    include_history: bool
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., filter: _Optional[_Union[_common_pb2.Filter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_history: bool = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListMemoriesResponse(_message.Message):
    __slots__ = ("memories", "next_page_token", "version")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[_common_pb2.Memory]
    next_page_token: str
    version: int
    def __init__(self, memories: _Optional[_Iterable[_Union[_common_pb2.Memory, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetHistoryRequest(_message.Message):
    __slots__ = ("scope", "key")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    scope: _common_pb2.Scope
    key: str
    def __init__(self, scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class GetHistoryResponse(_message.Message):
    __slots__ = ("memories", "version")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[_common_pb2.Memory]
    version: int
    def __init__(self, memories: _Optional[_Iterable[_Union[_common_pb2.Memory, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class DeleteMemoriesRequest(_message.Message):
    __slots__ = ("ids", "scope", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    scope: _common_pb2.Scope
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteMemoriesResponse(_message.Message):
    __slots__ = ("version", "deleted_ids", "missing_ids", "replayed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DELETED_IDS_FIELD_NUMBER: _ClassVar[int]
    MISSING_IDS_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    version: int
    deleted_ids: _containers.RepeatedScalarFieldContainer[str]
    missing_ids: _containers.RepeatedScalarFieldContainer[str]
    replayed: bool
    def __init__(self, version: _Optional[int] = ..., deleted_ids: _Optional[_Iterable[str]] = ..., missing_ids: _Optional[_Iterable[str]] = ..., replayed: bool = ...) -> None: ...

class ForgetScopeRequest(_message.Message):
    __slots__ = ("scope", "request_id")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    scope: _common_pb2.Scope
    request_id: str
    def __init__(self, scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ForgetScopeResponse(_message.Message):
    __slots__ = ("version", "deleted", "replayed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    version: int
    deleted: int
    replayed: bool
    def __init__(self, version: _Optional[int] = ..., deleted: _Optional[int] = ..., replayed: bool = ...) -> None: ...

class ForgetSourceRequest(_message.Message):
    __slots__ = ("scope", "source", "request_id")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    scope: _common_pb2.Scope
    source: _common_pb2.Source
    request_id: str
    def __init__(self, scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., source: _Optional[_Union[_common_pb2.Source, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ForgetSourceResponse(_message.Message):
    __slots__ = ("version", "deleted_ids", "replayed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DELETED_IDS_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    version: int
    deleted_ids: _containers.RepeatedScalarFieldContainer[str]
    replayed: bool
    def __init__(self, version: _Optional[int] = ..., deleted_ids: _Optional[_Iterable[str]] = ..., replayed: bool = ...) -> None: ...
