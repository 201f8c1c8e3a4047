"""A conversation: observe what is said, read what is known."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Self
from uuid import UUID

from precall.client import arguments, convert
from precall.client.circuit import Circuit
from precall.client.clock import Clock
from precall.client.encoder_supply import EncoderSupply
from precall.client.errors import ClientClosed
from precall.client.filter import MemoryFilter
from precall.client.hook_calls import HookCalls
from precall.client.live_checks import LiveChecks
from precall.client.memories import Memories
from precall.client.memory import Forgotten, MemoryDraft, MemorySource, Written
from precall.client.observation import Outbox, Role, observation
from precall.client.options import ClientOptions
from precall.client.question import Question, check_mode, conversation
from precall.client.read import Read, SearchResult
from precall.client.reports import Reporter
from precall.client.session_reads import SessionReads
from precall.client.session_state import session_state
from precall.client.session_writes import SessionWrites
from precall.client.spoken_vectors import SpokenVectors
from precall.client.state import SessionState
from precall.client.subscription import Subscription
from precall.client.tracing import SessionClosed, SessionOpened
from precall.client.transport import Transport
from precall.client.warming import Warming
from precall.client.watcher import Watcher


class AsyncSession:
    """Made by ``AsyncClient.session``; use it inside ``async with``.

    Entering does not wait for the server: while it is away the session is degraded, and recovers by itself.
    The scope is bound here and is no argument of a read, so a model cannot choose whose memories it sees.
    """

    def __init__(
        self,
        scope: Mapping[str, str],
        conversation_id: UUID | str | None,
        *,
        transport: Transport,
        watcher: Watcher,
        encoders: EncoderSupply,
        vectors: SpokenVectors,
        reporter: Reporter,
        checks: LiveChecks,
        hooks: HookCalls,
        circuit: Circuit,
        memories: Memories,
        options: ClientOptions,
        clock: Clock,
    ) -> None:
        wire_scope = convert.scope_to_wire(scope)
        self._scope = MappingProxyType(dict(scope))
        self._conversation_id = conversation(conversation_id)
        self._session_id = str(uuid.uuid4())
        self._encoders = encoders
        self._checks = checks
        self._hooks = hooks
        self._options = options
        self._clock = clock
        self._subscription = Subscription(
            self._session_id,
            self._scope,
            self._conversation_id,
            transport=transport,
            watcher=watcher,
            reporter=reporter,
            options=options,
            clock=clock,
        )
        self._outbox = Outbox(self._subscription, transport, vectors, options)
        self._reads = SessionReads(
            self._subscription,
            wire_scope,
            transport=transport,
            encoders=encoders,
            circuit=circuit,
            checks=checks,
            reporter=reporter,
            hooks=hooks,
            clock=clock,
        )
        self._writes = SessionWrites(self._scope, memories, self._subscription)
        self._warming = Warming(encoders, pause_seconds=options.warm_pause_ms / 1000)
        self._entered = False
        self._open = False

    async def __aenter__(self) -> Self:
        if self._entered:
            raise ClientClosed("a session is entered once: make another one with client.session(...)")
        self._entered = self._open = True
        self._subscription.start()
        self._outbox.start()
        self._hooks.tell(SessionOpened(self._session_id, self._conversation_id, lambda: self.state))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:  # the client may have been closed first, and its sessions with it
            return
        self._open = False
        self._warming.close()
        async with AsyncExitStack() as parts:  # in turn from the last one; a cancellation skips none
            parts.callback(self._hooks.tell, SessionClosed(self._session_id))
            parts.push_async_callback(self._subscription.close)
            parts.push_async_callback(self._reads.close)
            parts.push_async_callback(self._outbox.close)

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def conversation_id(self) -> str:
        return self._conversation_id

    @property
    def scope(self) -> Mapping[str, str]:
        """Level name -> value; read-only."""
        return self._scope

    @property
    def state(self) -> SessionState:
        """How the session stands at this moment."""
        return session_state(
            self._subscription,
            self._outbox,
            self._checks.strictness,
            encoder_ready=self._encoders.fitting is not None,
        )

    def observe(
        self,
        role: Role,
        text: str,
        *,
        partial: bool = False,
        turn_id: str | None = None,
        used: Read | Sequence[str] | None = None,
    ) -> None:
        """Tell what was said, or with ``partial`` what was said so far of a turn; returns at once.

        Sent in order in the background and retried. ``used``: the read, or the memory ids, that the turn was
        built on. Raises InvalidInput as ``check_observation`` does; an empty partial is left out.
        """
        self._check_open()
        self._outbox.put(observation(self._clock, role, text, partial=partial, turn_id=turn_id, used=used))
        if role == "user":  # a read of the very same words comes next, as often as not
            self._warming.observed(text, partial=partial)

    async def read(
        self,
        query: str,
        *,
        limit: int = 10,
        budget_tokens: int = 2000,
        deadline_ms: float | None = None,
        min_version: int | None = None,
        min_relevance: float = 0.0,
    ) -> Read:
        """What is known about ``query``: from the cache when that is as good as the server, else from it.

        Sees every memory that this session wrote. Never raises for an outage: the status is then "degraded"
        and ``reason`` says why. Raises InvalidInput, before any I/O, for arguments that make no sense.

        deadline_ms: the longest wait for the server (``ClientOptions.read_deadline_ms``); 0: do not ask.
        min_relevance: leave out those of the best ``limit`` whose ``score.relevance`` (0 to 1) is below it.
        With 0 the status "hit" means that memories exist, not that they fit.
        """
        self._check_open()
        deadline = self._options.read_deadline_ms if deadline_ms is None else deadline_ms
        question = Question(
            query=query,
            limit=limit,
            budget_tokens=budget_tokens,
            deadline_seconds=arguments.number(deadline, "deadline_ms") / 1000,
            min_version=self._writes.demanded(min_version),
            min_relevance=min_relevance,
        )
        return await self._reads.read(question)

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
    ) -> SearchResult:
        """Ask the server, never the cache; raises on failure. ``mode``: "fast" or "accurate" (reranked).

        ``filter``: which memories may answer. ``min_relevance``: as in ``read``. ``as_of``: answer as the
        ladder stood then. The server embeds the query itself.
        """
        self._check_open()
        check_mode(mode)
        deadline = self._options.write_deadline_seconds if deadline_seconds is None else deadline_seconds
        question = Question(
            query=query,
            limit=limit,
            budget_tokens=0,
            deadline_seconds=deadline,
            min_version=self._writes.demanded(min_version),
            min_relevance=min_relevance,
            filter=filter,
        )
        return await self._reads.search(question, mode=mode, as_of=as_of, truncate=truncate)

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
    ) -> Written:
        """Write one memory on the session's rung; durable when it returns. Raises on failure.

        The arguments are those of ``MemoryDraft``. ``source`` defaults to this conversation.
        """
        draft = MemoryDraft(
            text=text,
            key=key,
            kind=kind,
            confidence=confidence,
            importance=importance,
            event_time=event_time,
            said_time=said_time,
            valid_from=valid_from,
            valid_until=valid_until,
            expires_at=expires_at,
            source=source or MemorySource(conversation_id=self._conversation_id),
            questions=arguments.texts(questions, "questions"),
            metadata={} if metadata is None else metadata,
            pinned=pinned,
            id=id,
        )
        (written,) = await self.remember_many([draft], truncate=truncate, request_id=request_id)
        return written

    async def remember_many(
        self, drafts: Sequence[MemoryDraft], *, truncate: bool = False, request_id: str | None = None
    ) -> list[Written]:
        """Write memories on the session's rung, all or none. Raises on failure."""
        self._check_open()
        return await self._writes.write(drafts, truncate=truncate, request_id=request_id)

    async def forget(self, *ids: str, request_id: str | None = None) -> Forgotten:
        """Destroy memories, their history included. Raises on failure.

        Returns when no client's cache can serve them any more, which may take as long as a lease.
        """
        self._check_open()
        return await self._writes.forget(ids, request_id=request_id)

    async def ready(self, timeout: float | None = None) -> bool:
        """Wait until the cache was filled and queries are embedded here; False: ``timeout`` (s) ran out."""
        self._check_open()
        try:
            async with asyncio.timeout(timeout):
                await self._subscription.settled()
                await self._encoders.decided()
        except TimeoutError:
            return False
        return True

    def _check_open(self) -> None:
        if not self._open:
            raise ClientClosed("the session is not open: use it inside `async with`")
