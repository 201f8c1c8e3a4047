"""What an agent installs: memories, in its own process before it asks for them.

``AsyncClient`` for asyncio, ``Client`` without ``await``, ``FakeAsyncClient`` and ``FakeClient`` for tests.
Importing this loads grpcio, protobuf and numpy, and nothing heavier.
"""

from precall.client.admin import CreatedKey, Key, Tenant
from precall.client.async_client import AsyncClient
from precall.client.encoder import EncodedQuery, QueryEncoder
from precall.client.errors import (
    AlreadyExists,
    Cancelled,
    ClientClosed,
    ConfigurationError,
    DeadlineExceeded,
    Draining,
    ExtraMissing,
    FingerprintMismatch,
    InvalidInput,
    InvalidScope,
    InvalidVector,
    MigrationRefused,
    ModelChanged,
    ModelUnavailable,
    NotFound,
    NotSupported,
    NumericsError,
    Overloaded,
    PermissionDenied,
    PrecallError,
    SessionNotFound,
    StorageUnavailable,
    StreamNotFound,
    TenantNotFound,
    TenantQuarantined,
    TextTooLong,
    Unauthenticated,
    Unavailable,
    VersionNotReached,
)
from precall.client.fake import FakeAsyncClient, FakeClient
from precall.client.fake_session import FakeAsyncSession, FakeObservation
from precall.client.filter import MemoryFilter
from precall.client.interface import AsyncClientInterface, AsyncMemoriesInterface, AsyncSessionInterface
from precall.client.memory import (
    MEMORY_KINDS,
    Forgotten,
    ForgottenScope,
    FoundMemories,
    Memory,
    MemoryDraft,
    MemoryPage,
    MemorySource,
    Written,
)
from precall.client.migration import MIGRATION_ENDS, Migration
from precall.client.options import ClientOptions, LocalEncoding
from precall.client.read import (
    Read,
    ReadDecision,
    ReadItem,
    ReadSource,
    ReadStatus,
    ScoreParts,
    SearchResult,
)
from precall.client.session import AsyncSession
from precall.client.state import SessionState
from precall.client.sync_client import Client
from precall.client.sync_session import Session

__all__ = [
    "MEMORY_KINDS",
    "MIGRATION_ENDS",
    "AlreadyExists",
    "AsyncClient",
    "AsyncClientInterface",
    "AsyncMemoriesInterface",
    "AsyncSession",
    "AsyncSessionInterface",
    "Cancelled",
    "Client",
    "ClientClosed",
    "ClientOptions",
    "ConfigurationError",
    "CreatedKey",
    "DeadlineExceeded",
    "Draining",
    "EncodedQuery",
    "ExtraMissing",
    "FakeAsyncClient",
    "FakeAsyncSession",
    "FakeClient",
    "FakeObservation",
    "FingerprintMismatch",
    "Forgotten",
    "ForgottenScope",
    "FoundMemories",
    "InvalidInput",
    "InvalidScope",
    "InvalidVector",
    "Key",
    "LocalEncoding",
    "Memory",
    "MemoryDraft",
    "MemoryFilter",
    "MemoryPage",
    "MemorySource",
    "Migration",
    "MigrationRefused",
    "ModelChanged",
    "ModelUnavailable",
    "NotFound",
    "NotSupported",
    "NumericsError",
    "Overloaded",
    "PermissionDenied",
    "PrecallError",
    "QueryEncoder",
    "Read",
    "ReadDecision",
    "ReadItem",
    "ReadSource",
    "ReadStatus",
    "ScoreParts",
    "SearchResult",
    "Session",
    "SessionNotFound",
    "SessionState",
    "StorageUnavailable",
    "StreamNotFound",
    "Tenant",
    "TenantNotFound",
    "TenantQuarantined",
    "TextTooLong",
    "Unauthenticated",
    "Unavailable",
    "VersionNotReached",
    "Written",
]
