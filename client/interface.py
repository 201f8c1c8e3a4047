"""What the real client and the fake both are; annotate with these to accept either."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

from precall.client.filter import MemoryFilter
from precall.client.memory import (
    Forgotten,
    ForgottenScope,
    FoundMemories,
    Memory,
    MemoryDraft,
    MemoryPage,
    MemorySource,
    Written,
)
from precall.client.observation import Role
from precall.client.read import Read, SearchResult
from precall.client.state import SessionState


class AsyncSessionInterface(Protocol):
    """One conversation, bound to one scope for good. See ``AsyncSession``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def session_id(self) -> str: ...

    @property
    def conversation_id(self) -> str: ...

    @property
    def scope(self) -> Mapping[str, str]: ...

    @property
    def state(self) -> SessionState: ...

    def observe(
        self,
        role: Role,
        text: str,
        *,
        partial: bool = False,
        turn_id: str | None = None,
        used: Read | Sequence[str] | None = None,
    ) -> None: ...

    async def read(
        self,
        query: str,
        *,
        limit: int = 10,
        budget_tokens: int = 2000,
        deadline_ms: float | None = None,
        min_version: int | None = None,
        min_relevance: float = 0.0,
    ) -> Read: ...

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        mode: str = "fast",
        filter: MemoryFilter | None = None,
        min_version: int | None = None,
        min_relevance: float = 0.0,
        as_of: datetime | None = None,
        truncate: bool = False,
        deadline_seconds: float | None = None,
    ) -> SearchResult: ...

    async def remember(
        self,
        text: str,
        *,
        key: str = "",
        kind: str = "fact",
        confidence: float | None = None,
        importance: float | None = None,
        event_time: datetime | None = None,
        said_time: datetime | None = None,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
        expires_at: datetime | None = None,
        source: MemorySource | None = None,
        questions: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        pinned: bool = False,
        id: str = "",
        truncate: bool = False,
        request_id: str | None = None,
    ) -> Written: ...

    async def remember_many(
        self, drafts: Sequence[MemoryDraft], *, truncate: bool = False, request_id: str | None = None
    ) -> list[Written]: ...

    async def forget(self, *ids: str, request_id: str | None = None) -> Forgotten: ...

    async def ready(self, timeout: float | None = None) -> bool: ...


class AsyncMemoriesInterface(Protocol):
    """See ``Memories``."""

    async def write(
        self,
        scope: Mapping[str, str],
        drafts: Sequence[MemoryDraft],
        *,
        truncate: bool = False,
        request_id: str | None = None,
    ) -> tuple[Written, ...]: ...

    async def get(
        self, scope: Mapping[str, str], ids: Sequence[str], *, min_version: int = 0
    ) -> FoundMemories: ...

    async def list(
        self,
        scope: Mapping[str, str],
        *,
        page_size: int = 100,
        page_token: str = "",
        filter: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: datetime | None = None,
    ) -> MemoryPage: ...

    async def history(self, scope: Mapping[str, str], key: str) -> tuple[Memory, ...]: ...

    async def delete(
        self, scope: Mapping[str, str], ids: Sequence[str], *, request_id: str | None = None
    ) -> Forgotten: ...

    async def forget_scope(
        self, scope: Mapping[str, str], *, request_id: str | None = None
    ) -> ForgottenScope: ...


class AsyncClientInterface(Protocol):
    """See ``AsyncClient``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def memories(self) -> AsyncMemoriesInterface: ...

    def session(
        self, scope: Mapping[str, str], conversation_id: UUID | str | None = None
    ) -> AsyncSessionInterface: ...

    async def forget_scope(
        self, scope: Mapping[str, str], *, request_id: str | None = None
    ) -> ForgottenScope: ...
