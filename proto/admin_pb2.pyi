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

class TenantHealth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TENANT_HEALTH_UNSPECIFIED: _ClassVar[TenantHealth]
    TENANT_HEALTH_READY: _ClassVar[TenantHealth]
    TENANT_HEALTH_COLD: _ClassVar[TenantHealth]
    TENANT_HEALTH_QUARANTINED: _ClassVar[TenantHealth]

class KeyRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEY_ROLE_UNSPECIFIED: _ClassVar[KeyRole]
    KEY_ROLE_READ: _ClassVar[KeyRole]
    KEY_ROLE_WRITE: _ClassVar[KeyRole]
    KEY_ROLE_ADMIN: _ClassVar[KeyRole]

class MigrationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MIGRATION_STATE_UNSPECIFIED: _ClassVar[MigrationState]
    MIGRATION_STATE_BACKFILLING: _ClassVar[MigrationState]
    MIGRATION_STATE_READY: _ClassVar[MigrationState]
    MIGRATION_STATE_SWITCHED: _ClassVar[MigrationState]
    MIGRATION_STATE_FINISHED: _ClassVar[MigrationState]
    MIGRATION_STATE_ROLLED_BACK: _ClassVar[MigrationState]
    MIGRATION_STATE_FINISHING: _ClassVar[MigrationState]

class MigrationEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MIGRATION_END_UNSPECIFIED: _ClassVar[MigrationEnd]
    MIGRATION_END_SWITCH: _ClassVar[MigrationEnd]
    MIGRATION_END_ROLL_BACK: _ClassVar[MigrationEnd]
    MIGRATION_END_FINISH: _ClassVar[MigrationEnd]
TENANT_HEALTH_UNSPECIFIED: TenantHealth
TENANT_HEALTH_READY: TenantHealth
TENANT_HEALTH_COLD: TenantHealth
TENANT_HEALTH_QUARANTINED: TenantHealth
KEY_ROLE_UNSPECIFIED: KeyRole
KEY_ROLE_READ: KeyRole
KEY_ROLE_WRITE: KeyRole
KEY_ROLE_ADMIN: KeyRole
MIGRATION_STATE_UNSPECIFIED: MigrationState
MIGRATION_STATE_BACKFILLING: MigrationState
MIGRATION_STATE_READY: MigrationState
MIGRATION_STATE_SWITCHED: MigrationState
MIGRATION_STATE_FINISHED: MigrationState
MIGRATION_STATE_ROLLED_BACK: MigrationState
MIGRATION_STATE_FINISHING: MigrationState
MIGRATION_END_UNSPECIFIED: MigrationEnd
MIGRATION_END_SWITCH: MigrationEnd
MIGRATION_END_ROLL_BACK: MigrationEnd
MIGRATION_END_FINISH: MigrationEnd

class Tenant(_message.Message):
    __slots__ = ("id", "ladder", "created_at", "version", "memories", "model_fingerprint", "health")
    ID_FIELD_NUMBER: _ClassVar[int]
    LADDER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    id: str
    ladder: _containers.RepeatedScalarFieldContainer[str]
    created_at: _timestamp_pb2.Timestamp
    version: int
    memories: int
    model_fingerprint: str
    health: TenantHealth
    def __init__(self, id: _Optional[str] = ..., ladder: _Optional[_Iterable[str]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[int] = ..., memories: _Optional[int] = ..., model_fingerprint: _Optional[str] = ..., health: _Optional[_Union[TenantHealth, str]] = ...) -> None: ...

class CreateTenantRequest(_message.Message):
    __slots__ = ("id", "ladder")
    ID_FIELD_NUMBER: _ClassVar[int]
    LADDER_FIELD_NUMBER: _ClassVar[int]
    id: str
    ladder: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., ladder: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTenantRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListTenantsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("tenants", "next_page_token")
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[Tenant]
    next_page_token: str
    def __init__(self, tenants: _Optional[_Iterable[_Union[Tenant, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteTenantRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteTenantResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Key(_message.Message):
    __slots__ = ("id", "tenant_id", "role", "pinned_scope", "created_at", "revoked_at", "label")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PINNED_SCOPE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant_id: str
    role: KeyRole
    pinned_scope: _common_pb2.Scope
    created_at: _timestamp_pb2.Timestamp
    revoked_at: _timestamp_pb2.Timestamp
    label: str
    def __init__(self, id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., role: _Optional[_Union[KeyRole, str]] = ..., pinned_scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revoked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., label: _Optional[str] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("tenant_id", "role", "pinned_scope", "label")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PINNED_SCOPE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    role: KeyRole
    pinned_scope: _common_pb2.Scope
    label: str
    def __init__(self, tenant_id: _Optional[str] = ..., role: _Optional[_Union[KeyRole, str]] = ..., pinned_scope: _Optional[_Union[_common_pb2.Scope, _Mapping]] = ..., label: _Optional[str] = ...) -> None: ...

class CreateKeyResponse(_message.Message):
    __slots__ = ("key", "secret")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    key: Key
    secret: str
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., secret: _Optional[str] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    def __init__(self, keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RevokeKeyResponse(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: Key
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ...) -> None: ...

class BackUpTenantRequest(_message.Message):
    __slots__ = ("tenant_id", "destination")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    destination: str
    def __init__(self, tenant_id: _Optional[str] = ..., destination: _Optional[str] = ...) -> None: ...

class BackUpTenantResponse(_message.Message):
    __slots__ = ("path", "version", "size_bytes", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    version: int
    size_bytes: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., version: _Optional[int] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class Migration(_message.Message):
    __slots__ = ("tenant_id", "from_fingerprint", "to_fingerprint", "state", "done", "total", "overlap_at_10", "compared_queries", "error", "serving_fingerprint", "working", "texts_cut", "to_max_tokens", "too_few_to_compare", "from_model", "to_model")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    TO_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_AT_10_FIELD_NUMBER: _ClassVar[int]
    COMPARED_QUERIES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SERVING_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    WORKING_FIELD_NUMBER: _ClassVar[int]
    TEXTS_CUT_FIELD_NUMBER: _ClassVar[int]
    TO_MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOO_FEW_TO_COMPARE_FIELD_NUMBER: _ClassVar[int]
    FROM_MODEL_FIELD_NUMBER: _ClassVar[int]
    TO_MODEL_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    from_fingerprint: str
    to_fingerprint: str
    state: MigrationState
    done: int
    total: int
    overlap_at_10: float
    compared_queries: int
    error: str
    serving_fingerprint: str
    working: bool
    texts_cut: int
    to_max_tokens: int
    too_few_to_compare: bool
    from_model: str
    to_model: str
    def __init__(self, tenant_id: _Optional[str] = ..., from_fingerprint: _Optional[str] = ..., to_fingerprint: _Optional[str] = ..., state: _Optional[_Union[MigrationState, str]] = ..., done: _Optional[int] = ..., total: _Optional[int] = ..., overlap_at_10: _Optional[float] = ..., compared_queries: _Optional[int] = ..., error: _Optional[str] = ..., serving_fingerprint: _Optional[str] = ..., working: bool = ..., texts_cut: _Optional[int] = ..., to_max_tokens: _Optional[int] = ..., too_few_to_compare: bool = ..., from_model: _Optional[str] = ..., to_model: _Optional[str] = ...) -> None: ...

class StartMigrationRequest(_message.Message):
    __slots__ = ("tenant_id", "model")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    model: str
    def __init__(self, tenant_id: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class GetMigrationRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class EndMigrationRequest(_message.Message):
    __slots__ = ("tenant_id", "end")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    end: MigrationEnd
    def __init__(self, tenant_id: _Optional[str] = ..., end: _Optional[_Union[MigrationEnd, str]] = ...) -> None: ...
