"""A conversation without ``await``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from precall.client.errors import ClientClosed
from precall.client.filter import MemoryFilter
from precall.client.interface import AsyncSessionInterface
from precall.client.loop_thread import LoopThread
from precall.client.memory import Forgotten, MemoryDraft, MemorySource, Written
from precall.client.observation import Role, check_observation
from precall.client.read import Read, SearchResult
from precall.client.state import SessionState


class Session:
    """See ``AsyncSession``; use it inside ``with``."""

    def __init__(self, inner: AsyncSessionInterface, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread
        self._open = False

    def __enter__(self) -> Self:
        try:
            self._thread.run(self._inner.__aenter__())
        except Exception:
            raise
        except BaseException:  # interrupted: nobody will leave what may have been entered
            self._thread.run(self._inner.__aexit__(None, None, None))
            raise
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        self._thread.run(self._inner.__aexit__(kind, error, trace))

    @property
    def session_id(self) -> str:
        return self._inner.session_id

    @property
    def conversation_id(self) -> str:
        return self._inner.conversation_id

    @property
    def scope(self) -> Mapping[str, str]:
        return self._inner.scope

    @property
    def state(self) -> SessionState:
        return self._thread.run(_state(self._inner))

    def observe(
        self,
        role: Role,
        text: str,
        *,
        partial: bool = False,
        turn_id: str | None = None,
        used: Read | Sequence[str] | None = None,
    ) -> None:
        """Returns at once; see ``AsyncSession.observe``."""
        check_observation(role, text, partial=partial, turn_id=turn_id, used=used)
        if not self._open:
            raise ClientClosed("the session is not open: use it inside `with`")
        self._thread.call(
            lambda: self._inner.observe(role, text, partial=partial, turn_id=turn_id, used=used)
        )

    def read(
        self,
        query: str,
        *,
        limit: int = 10,
        budget_tokens: int = 2000,
        deadline_ms: float | None = None,
        min_version: int | None = None,
        min_relevance: float = 0.0,
    ) -> Read:
        """Never raises for an outage; see ``AsyncSession.read``."""
        return self._thread.run(
            self._inner.read(
                query,
                limit=limit,
                budget_tokens=budget_tokens,
                deadline_ms=deadline_ms,
                min_version=min_version,
                min_relevance=min_relevance,
            )
        )

    def search(
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
    ) -> SearchResult:
        """Asks the server and raises on failure; see ``AsyncSession.search``."""
        return self._thread.run(
            self._inner.search(
                query,
                limit=limit,
                mode=mode,
                filter=filter,
                min_version=min_version,
                min_relevance=min_relevance,
                as_of=as_of,
                truncate=truncate,
                deadline_seconds=deadline_seconds,
            )
        )

    def remember(
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
    ) -> Written:
        """Raises on failure; see ``AsyncSession.remember``."""
        return self._thread.run(
            self._inner.remember(
                text,
                key=key,
                kind=kind,
                confidence=confidence,
                importance=importance,
                event_time=event_time,
                said_time=said_time,
                valid_from=valid_from,
                valid_until=valid_until,
                expires_at=expires_at,
                source=source,
                questions=questions,
                metadata=metadata,
                pinned=pinned,
                id=id,
                truncate=truncate,
                request_id=request_id,
            )
        )

    def remember_many(
        self, drafts: Sequence[MemoryDraft], *, truncate: bool = False, request_id: str | None = None
    ) -> list[Written]:
        """All or none; raises on failure."""
        return self._thread.run(self._inner.remember_many(drafts, truncate=truncate, request_id=request_id))

    def forget(self, *ids: str, request_id: str | None = None) -> Forgotten:
        """Raises on failure; see ``AsyncSession.forget``."""
        return self._thread.run(self._inner.forget(*ids, request_id=request_id))

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until the cache was filled; False when ``timeout`` (s) ran out."""
        return self._thread.run(self._inner.ready(timeout))


async def _state(inner: AsyncSessionInterface) -> SessionState:
    """On the client's own thread, where nothing changes meanwhile."""
    return inner.state
