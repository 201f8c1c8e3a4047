"""Every call of the wire that the client makes, with the types that go up and come down."""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from precall.proto import admin_pb2 as admin
from precall.proto import anticipation_pb2 as anticipation
from precall.proto import embedding_pb2 as embedding
from precall.proto import memory_pb2 as memory
from precall.proto import retrieval_pb2 as retrieval

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """``path`` is ``service/method`` inside the package ``precall.v1``."""

    path: str
    request: type[RequestT]
    response: type[ResponseT]

    @property
    def full_path(self) -> str:
        return f"/precall.v1.{self.path}"


WATCH: Final = Method("AnticipationService/Watch", anticipation.WatchRequest, anticipation.WatchEvent)
OPEN_SESSION: Final = Method(
    "AnticipationService/OpenSession", anticipation.OpenSessionRequest, anticipation.OpenSessionResponse
)
OBSERVE_TURN: Final = Method(
    "AnticipationService/ObserveTurn", anticipation.ObserveTurnRequest, anticipation.ObserveTurnResponse
)
CLOSE_SESSION: Final = Method(
    "AnticipationService/CloseSession", anticipation.CloseSessionRequest, anticipation.CloseSessionResponse
)
RENEW_LEASE: Final = Method(
    "AnticipationService/RenewLease", anticipation.RenewLeaseRequest, anticipation.RenewLeaseResponse
)
REPORT_READS: Final = Method(
    "AnticipationService/ReportReads", anticipation.ReportReadsRequest, anticipation.ReportReadsResponse
)

SEARCH: Final = Method("RetrievalService/Search", retrieval.SearchRequest, retrieval.SearchResponse)

GET_CLIENT_ENCODER: Final = Method(
    "EmbeddingService/GetClientEncoder", embedding.GetClientEncoderRequest, embedding.ClientEncoderChunk
)

WRITE_MEMORIES: Final = Method(
    "MemoryService/WriteMemories", memory.WriteMemoriesRequest, memory.WriteMemoriesResponse
)
GET_MEMORIES: Final = Method(
    "MemoryService/GetMemories", memory.GetMemoriesRequest, memory.GetMemoriesResponse
)
LIST_MEMORIES: Final = Method(
    "MemoryService/ListMemories", memory.ListMemoriesRequest, memory.ListMemoriesResponse
)
GET_HISTORY: Final = Method("MemoryService/GetHistory", memory.GetHistoryRequest, memory.GetHistoryResponse)
DELETE_MEMORIES: Final = Method(
    "MemoryService/DeleteMemories", memory.DeleteMemoriesRequest, memory.DeleteMemoriesResponse
)
FORGET_SCOPE: Final = Method(
    "MemoryService/ForgetScope", memory.ForgetScopeRequest, memory.ForgetScopeResponse
)

CREATE_TENANT: Final = Method("AdminService/CreateTenant", admin.CreateTenantRequest, admin.Tenant)
GET_TENANT: Final = Method("AdminService/GetTenant", admin.GetTenantRequest, admin.Tenant)
LIST_TENANTS: Final = Method("AdminService/ListTenants", admin.ListTenantsRequest, admin.ListTenantsResponse)
DELETE_TENANT: Final = Method(
    "AdminService/DeleteTenant", admin.DeleteTenantRequest, admin.DeleteTenantResponse
)
CREATE_KEY: Final = Method("AdminService/CreateKey", admin.CreateKeyRequest, admin.CreateKeyResponse)
LIST_KEYS: Final = Method("AdminService/ListKeys", admin.ListKeysRequest, admin.ListKeysResponse)
REVOKE_KEY: Final = Method("AdminService/RevokeKey", admin.RevokeKeyRequest, admin.RevokeKeyResponse)
START_MIGRATION: Final = Method("AdminService/StartMigration", admin.StartMigrationRequest, admin.Migration)
GET_MIGRATION: Final = Method("AdminService/GetMigration", admin.GetMigrationRequest, admin.Migration)
END_MIGRATION: Final = Method("AdminService/EndMigration", admin.EndMigrationRequest, admin.Migration)
