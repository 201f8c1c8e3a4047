"""``client.session(...)`` of a fake client."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Self
from uuid import UUID

from precall.client import arguments
from precall.client.errors import ClientClosed, PrecallError
from precall.client.fake_memories import FakeMemories
from precall.client.fake_store import FakeStore
from precall.client.filter import MemoryFilter
from precall.client.hook_calls import HookCalls
from precall.client.memory import Forgotten, MemoryDraft, MemorySource, Written
from precall.client.observation import Role, check_observation, used_ids
from precall.client.outcome import Outcome, relevant_items
from precall.client.question import Question, check_mode, conversation
from precall.client.read import Read, ReadDecision, ReadSource, SearchResult
from precall.client.read_times import ReadStage, ReadTimes
from precall.client.state import SessionState
from precall.client.tracing import ReadFinished, ReadStarted, SessionClosed, SessionOpened


@dataclass(frozen=True, slots=True)
class FakeObservation:
    """What was passed to ``observe``."""

    role: Role
    text: str
    partial: bool
    turn_id: str | None
    used_ids: tuple[str, ...]


class FakeAsyncSession:
    """See ``AsyncSession``; ``observed`` lists what was observed, for a test to look at."""

    def __init__(
        self,
        scope: Mapping[str, str],
        conversation_id: UUID | str | None,
        *,
        store: FakeStore,
        memories: FakeMemories,
        check: Callable[[], None],
        hooks: HookCalls,
    ) -> None:
        self.observed: list[FakeObservation] = []
        self._scope = MappingProxyType(store.rung(scope))
        self._conversation_id = conversation(conversation_id)
        self._session_id = str(uuid.uuid4())
        self._store = store
        self._memories = memories
        self._check = check
        self._hooks = hooks
        self._reads = 0
        self._entered = False
        self._open = False

    async def __aenter__(self) -> Self:
        if self._entered:
            raise ClientClosed("a session is entered once: make another one with client.session(...)")
        self._entered = self._open = True
        self._hooks.tell(SessionOpened(self._session_id, self._conversation_id, lambda: self.state))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self._open = False
            self._hooks.tell(SessionClosed(self._session_id))

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def conversation_id(self) -> str:
        return self._conversation_id

    @property
    def scope(self) -> Mapping[str, str]:
        return self._scope

    @property
    def state(self) -> SessionState:
        """A session that holds everything it may see."""
        online = self._online()
        found = self._store.visible(self._scope)
        return SessionState(
            items=len(found),
            wire_bytes=0,
            complete_rungs=tuple(self._scope),
            version=self._store.version,
            connected=online,
            ready=online,
            lease_seconds=float("inf"),
            pushes=1,
            refused_items=0,
            last_lead_seconds=None,
            pending_observations=0,
            dropped_partials=0,
            dropped_turns=0,
            encoder_ready=True,
            checked_reads=0,
            wrong_reads=0,
            strict=False,
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
        self._check_open()
        check_observation(role, text, partial=partial, turn_id=turn_id, used=used)
        if text.strip():
            self.observed.append(FakeObservation(role, text, partial, turn_id, used_ids(used)))

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
        """From the "cache", which is complete; degraded while the pretended server is away."""
        self._check_open()
        question = Question(
            query=query,
            limit=limit,
            budget_tokens=budget_tokens,
            deadline_seconds=arguments.number(deadline_ms or 0, "deadline_ms") / 1000,
            min_version=0 if min_version is None else min_version,
            min_relevance=min_relevance,
        )
        self._reads += 1
        number = self._reads
        self._hooks.tell(ReadStarted(self._session_id, number))
        read = self._read(question)
        self._hooks.tell(ReadFinished(self._session_id, number, read))
        return read

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
        self._check_open()
        check_mode(mode)
        question = Question(
            query=query,
            limit=limit,
            budget_tokens=0,
            deadline_seconds=0 if deadline_seconds is None else deadline_seconds,
            min_version=0 if min_version is None else min_version,
            min_relevance=min_relevance,
            filter=filter,
        )
        self._check()
        result = self._store.search(
            self._scope,
            question.query,
            limit=limit,
            min_version=question.min_version,
            as_of=as_of,
            filter=question.filter,
        )
        return replace(result, items=relevant_items(result.items, question.min_relevance))

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
        self._check_open()
        return list(await self._memories.write(self._scope, drafts, truncate=truncate, request_id=request_id))

    async def forget(self, *ids: str, request_id: str | None = None) -> Forgotten:
        self._check_open()
        return await self._memories.delete(self._scope, ids, request_id=request_id)

    async def ready(self, timeout: float | None = None) -> bool:
        """False at once while the pretended server is away: nobody will bring it back meanwhile."""
        self._check_open()
        return self._online()

    def _read(self, question: Question) -> Read:
        times = ReadTimes(time.perf_counter)
        with times.measure(ReadStage.LOOKUP):
            result = self._store.search(
                self._scope, question.query, limit=question.limit, min_version=0, as_of=None
            )
        reason = self._outage()
        decision = ReadDecision.STALE if reason else ReadDecision.COMPLETE
        if not reason and question.min_version > self._store.version:
            reason = f"VERSION_NOT_REACHED: version {question.min_version} is ahead of {self._store.version}"
            decision = ReadDecision.BEHIND
        outcome = Outcome(
            items=tuple(result.items),
            source=ReadSource.CACHE,
            decision=decision,
            version=result.version,
            staleness_seconds=0.0,
            truncated=False,
            reason=reason,
            degraded=bool(reason),
        )
        return outcome.relevant(question.min_relevance).render(
            budget_tokens=question.budget_tokens, times=times
        )

    def _online(self) -> bool:
        return not self._outage()

    def _outage(self) -> str:
        try:
            self._check()
        except PrecallError as error:
            return f"{error.reason}: {error.message}"
        return ""

    def _check_open(self) -> None:
        if not self._open:
            raise ClientClosed("the session is not open: use it inside `async with`")
