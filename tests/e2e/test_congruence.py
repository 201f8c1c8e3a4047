"""The same script on the fake client and on a real one with a real server must come to the same results.

What is compared is what a user's test can see and may rely on: which memories, in which order, the block, the
statuses, sources, decisions and errors. Not compared: scores, since the fake has no model; times; and
``visible`` while something has expired, which the server counts until it is destroyed.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precall.bench.relay import LinkRelay
from precall.client import (
    AsyncClient,
    AsyncClientInterface,
    AsyncSessionInterface,
    ClientEvent,
    ClientOptions,
    DeadlineExceeded,
    EncodedQuery,
    FakeAsyncClient,
    LocalEncoding,
    Memory,
    MemoryDraft,
    MemoryFilter,
    MemorySource,
    PrecallError,
    Read,
    ReadFinished,
    ReadStarted,
    SessionClosed,
    SessionOpened,
    Unavailable,
    Written,
)
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText
from precall.server.app import running_server
from precall.server.model import ServedModel
from precall.server.settings import ServerSettings
from tests.fakes.encoder import FakeEncoder

DANA = {"customer": "acme", "user": "dana"}
EVE = {"customer": "acme", "user": "eve"}
ACME = {"customer": "acme"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def named(name: str) -> str:
    """The same UUID for the same name, on both sides."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


CALL = named("a call")


class OneVector(FakeEncoder):
    """A model to which all texts are alike, as they are to the fake client: words alone tell them apart."""

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        vectors = np.zeros((len(texts), self.card.dimension), np.float32)
        vectors[:, 0] = 1.0
        return EncodedBatch(vectors)


class QueryOfOneVector:
    """The same in the client's process."""

    def __init__(self) -> None:
        self._model = OneVector()

    @property
    def model_fingerprint(self) -> str:
        return self._model.card.fingerprint

    async def encode(self, text: str) -> EncodedQuery:
        tokens = self._model.tokenize(text, TextRole.QUERY, truncate=True)
        return EncodedQuery(self._model.encode([tokens]).vectors[0])

    def warm(self, text: str) -> None: ...


@dataclass
class Stage:
    """A client, real or fake, and the power to take its server away."""

    client: AsyncClientInterface
    go_offline: Callable[[], Awaitable[None]]
    go_online: Callable[[], Awaitable[None]]
    events: list[ClientEvent] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def note(self, *seen: Any) -> None:
        """A line of the transcript."""
        self.seen.append(seen)

    async def note_error(self, awaitable: Awaitable[Any]) -> None:
        try:
            result = await awaitable
        except PrecallError as error:
            self.note(type(error).__name__, error.reason)
        else:
            self.note("no error", result)

    async def write(self, *drafts: MemoryDraft, scope: dict[str, str] = DANA, **arguments: Any) -> Any:
        written = await self.client.memories.write(scope, drafts, **arguments)
        self.note(*[(each.id, each.version, each.superseded_ids, each.state) for each in written])
        return written

    async def settled(self, session: AsyncSessionInterface, written: Written | Any) -> None:
        """What was written has been pushed: the real cache hears of it a moment after the writer."""
        async with asyncio.timeout(20):
            while session.state.version < written.version:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.005)

    async def read(self, session: AsyncSessionInterface, query: str, **arguments: Any) -> Read:
        read = await session.read(query, **arguments)
        self.note(
            query,
            read.status,
            read.source,
            read.decision,
            read.reason.partition(":")[0],
            read.version,
            [(item.memory.text, item.rung) for item in read.items],
            read.included,
            read.used_ids,
            read.text,
            read.truncated,
        )
        return read

    async def search(self, session: AsyncSessionInterface, query: str, **arguments: Any) -> None:
        found = await session.search(query, **arguments)
        self.note(query, found.version, found.visible, [item.memory.text for item in found.items])

    def stands(self, session: AsyncSessionInterface) -> None:
        state = session.state
        self.note(
            state.items, state.complete_rungs, state.version, state.connected, state.ready, state.strict
        )


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Stage]:
    settings = ServerSettings.load(
        {"data_dir": tmp_path, "port": 0, "metrics_port": 0, "heartbeat_seconds": 0.2}, environment={}
    )
    options = ClientOptions(
        local_encoding=LocalEncoding.OFF,
        write_deadline_seconds=1.0,
        reconnect_initial_seconds=0.02,
        reconnect_maximum_seconds=0.05,
    )
    async with AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(
            running_server(settings, lambda _: ServedModel(OneVector(), "test"))
        )
        link = LinkRelay("127.0.0.1", endpoints.port, rtt_ms=0.0)
        await link.start()
        stack.push_async_callback(link.close)
        admin_key = (tmp_path / "admin.key").read_text().strip()
        async with AsyncClient(endpoints.target, api_key=admin_key, options=options) as admin:
            await admin.admin.create_tenant("acme", ladder=("customer", "user"))
            key = (await admin.admin.create_key("acme")).secret
        target = f"127.0.0.1:{link.port}"
        events: list[ClientEvent] = []
        client = AsyncClient(
            target, api_key=key, options=options, encoder=QueryOfOneVector(), hooks=[events.append]
        )
        await stack.enter_async_context(client)

        async def restore() -> None:
            link.restore()

        yield Stage(client, link.cut, restore, events)


@pytest.fixture
async def fake() -> AsyncIterator[Stage]:
    events: list[ClientEvent] = []
    async with FakeAsyncClient(hooks=[events.append]) as client:

        async def go_offline() -> None:
            client.go_offline()

        async def go_online() -> None:
            client.go_online()

        yield Stage(client, go_offline, go_online, events)


def fact(name: str, text: str, **fields: Any) -> MemoryDraft:
    return MemoryDraft(id=named(name), text=text, event_time=NOON, **fields)


async def reads_in_order(stage: Stage) -> None:
    await stage.write(fact("office", "the office in Pune opens at nine"), scope=ACME)
    await stage.write(
        fact("peanuts", "Dana is allergic to peanuts"),
        fact("pune", "Dana flies to Pune next month", kind="event"),
        fact("seat", "Dana prefers the window seat", kind="preference", importance=1.0),
    )
    (eve,) = await stage.write(fact("eve", "Eve is allergic to peanuts too"), scope=EVE)
    async with stage.client.session(DANA) as session:
        assert await session.ready(20)
        await stage.settled(session, eve)
        stage.stands(session)
        for query in ("is Dana allergic to peanuts", "Pune", "which window seat does Dana prefer"):
            session.observe("user", query)
            await stage.read(session, query)
            await stage.read(session, query, limit=1)
            await stage.search(session, query)
        await stage.read(session, "Pune", budget_tokens=0)
        await stage.read(session, "Pune", budget_tokens=75)
        await stage.read(session, "Pune", min_relevance=1.0)
        await stage.read(session, "Pune", min_version=10_000)
        await stage.read(session, "Pune", deadline_ms=0)
    async with stage.client.session(ACME) as session:
        assert await session.ready(20)
        await stage.read(session, "Pune")


async def nothing_is_known(stage: Stage) -> None:
    async with stage.client.session(DANA) as session:
        assert await session.ready(20)
        await stage.read(session, "anything at all")
        await stage.search(session, "anything at all")
        stage.stands(session)


async def corrections_and_deletions(stage: Stage) -> None:
    async with stage.client.session(DANA, CALL) as session:
        assert await session.ready(20)
        first = await session.remember("the seat is 4A", key="seat", id=named("4A"), event_time=NOON)
        await stage.settled(session, first)
        await stage.read(session, "which seat")
        later = NOON + timedelta(hours=1)
        second = await session.remember("the seat is 9C", key="seat", id=named("9C"), event_time=later)
        stage.note(second.superseded_ids, second.state, second.version)
        await stage.settled(session, second)
        await stage.read(session, "which seat")
        late = await session.remember(
            "the seat is 1F", key="seat", id=named("1F"), event_time=NOON - timedelta(hours=1)
        )
        stage.note(late.superseded_ids, late.state, late.version)
        await stage.settled(session, late)
        await stage.read(session, "which seat")
        history = await stage.client.memories.history(DANA, "seat")
        stage.note([(each.text, each.state, each.created_version) for each in history])
        forgotten = await session.forget(named("9C"), named("nobody"))
        stage.note(forgotten)
        await stage.settled(session, forgotten)
        await stage.read(session, "which seat")
        stage.note(await stage.client.memories.history(DANA, "seat"))
        stage.note(await session.forget(named("nobody")))
        kept = await session.remember("something else", id=named("else"), event_time=NOON)
        await stage.settled(session, kept)
        stage.note(await stage.client.forget_scope(ACME))


async def filters(stage: Stage) -> None:
    await stage.write(
        fact("plane", "Dana flies to Pune", kind="event", metadata={"by": "plane"}),
        fact("seat", "Dana likes the window seat", kind="preference", key="seat", pinned=True),
        fact("call", "Dana called", kind="episode", source=MemorySource(conversation_id=CALL)),
        MemoryDraft(id=named("late"), text="Dana drives home", event_time=NOON + timedelta(days=1)),
    )
    async with stage.client.session(DANA) as session:
        for asked in (
            MemoryFilter(),
            MemoryFilter(kinds=["event", "episode"]),
            MemoryFilter(metadata={"by": "plane"}),
            MemoryFilter(keys=["seat"]),
            MemoryFilter(pinned_only=True),
            MemoryFilter(conversation_ids=[CALL]),
            MemoryFilter(event_from=NOON + timedelta(hours=1)),
            MemoryFilter(kinds=["emotion"]),
        ):
            await stage.search(session, "where does Dana go", filter=asked)
            page = await stage.client.memories.list(DANA, filter=asked)
            stage.note([memory.text for memory in page.memories])


async def turns_with_what_was_said_before(stage: Stage) -> None:
    """An answer is found by the question before it, which shares no word with it."""
    said = [
        ("user", "what present did the museum trip to Paris bring"),
        ("assistant", "yes a lovely umbrella"),
        ("user", "great"),
    ]
    drafts = [
        MemoryDraft(
            id=named(text),
            text=text,
            kind="episode",
            event_time=NOON + timedelta(seconds=10 * number),
            source=MemorySource(conversation_id=CALL),
        )
        for number, (_, text) in enumerate(said)
    ]
    resumed = MemoryDraft(
        id=named("resumed"),
        text="hello again",
        kind="episode",
        event_time=NOON + timedelta(hours=3),
        source=MemorySource(conversation_id=CALL),
    )
    await stage.write(*drafts, resumed, fact("other", "the lamp is broken"), fact("more", "tea at five"))
    async with stage.client.session(DANA) as session:
        assert await session.ready(20)
        await stage.read(session, "museum Paris", limit=3)
        await stage.search(session, "museum Paris", limit=3)
        await stage.write(fact("asked", "opening hours", questions=("when is the aquarium open",)))
        await stage.search(session, "aquarium", limit=1)


async def an_outage(stage: Stage) -> None:
    (written,) = await stage.write(fact("peanuts", "Dana is allergic to peanuts"))
    async with stage.client.session(DANA) as session:
        assert await session.ready(20)
        await stage.settled(session, written)
        await stage.read(session, "peanuts")
        await stage.go_offline()
        async with asyncio.timeout(20):
            while session.state.connected:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.005)
        during = await session.read("peanuts", deadline_ms=0)
        stage.note(during.status, during.source, [item.memory.text for item in during.items], during.text)
        assert during.reason
        for call in (
            session.search("peanuts", deadline_seconds=0.1),
            session.remember("said while the line was down"),
            session.forget(named("peanuts")),
        ):
            with pytest.raises((Unavailable, DeadlineExceeded)):  # a real line may also just be silent
                await call
        await stage.go_online()
        async with asyncio.timeout(20):
            while not session.state.ready:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.005)
        await stage.read(session, "peanuts")


async def what_is_refused(stage: Stage) -> None:
    await stage.write(fact("peanuts", "Dana is allergic to peanuts"))
    await stage.note_error(stage.client.memories.write(DANA, [fact("peanuts", "the same id")]))
    await stage.note_error(stage.client.memories.write({"user": "dana"}, [fact("x", "a gap")]))
    await stage.note_error(stage.client.memories.write({"planet": "mars"}, [fact("x", "no such level")]))
    await stage.note_error(stage.client.memories.write(DANA, []))
    for wrong in (
        {"text": " "},
        {"kind": "rumour"},
        {"importance": 1.5},
        {"key": "k" * 513},
        {"questions": ("q",) * 33},
        {"questions": ("q" * 2001,)},
        {"metadata": {str(number): "x" for number in range(65)}},
        {"metadata": {"a": "x" * 5000}},
        {"source": MemorySource(uri="u" * 513)},
        {"valid_from": NOON, "valid_until": NOON},
        {"text": "x" * 100_001},
    ):
        draft = MemoryDraft(**{"text": "fine"} | wrong)  # type: ignore[arg-type]
        await stage.note_error(stage.client.memories.write(DANA, [draft]))
    async with stage.client.session(DANA) as session:
        await stage.note_error(session.search("q", min_version=99))
        await stage.note_error(session.search("q", mode="slow"))
        await stage.note_error(session.read(""))
        await stage.note_error(session.forget())
        await stage.note_error(session.forget("no uuid"))
        await stage.note_error(session.remember("fine", request_id="no uuid"))
    await stage.note_error(stage.client.memories.get(DANA, ["no uuid"]))
    orphan = fact("orphan", "derived from nothing", source=MemorySource(memory_ids=(named("gone"),)))
    await stage.note_error(stage.client.memories.write(DANA, [orphan]))
    twice = [fact("twice", "one"), fact("twice", "two")]
    await stage.note_error(stage.client.memories.write(DANA, twice))
    stage.note(len((await stage.client.memories.list(DANA)).memories))


async def repeats(stage: Stage) -> None:
    request = named("a request")
    first = await stage.write(fact("once", "said once"), request_id=request)
    assert await stage.client.memories.write(DANA, [fact("once", "said once")], request_id=request) == first
    forgotten = await stage.client.memories.delete(DANA, [named("once")], request_id=named("another"))
    stage.note(forgotten)
    again = await stage.client.memories.delete(DANA, [named("once")], request_id=named("another"))
    assert again == forgotten


async def validity(stage: Stage) -> None:
    now = datetime.now(UTC)
    await stage.write(
        fact("over", "tea was at four", valid_until=now - timedelta(days=1)),
        fact("coming", "tea will be at six", valid_from=now + timedelta(days=1)),
        fact("expired", "tea on Mars", expires_at=now - timedelta(seconds=1)),
        fact(
            "stands",
            "tea is at five",
            valid_from=now - timedelta(days=1),
            valid_until=now + timedelta(days=1),
        ),
    )
    async with stage.client.session(DANA) as session:
        assert await session.ready(20)
        await stage.read(session, "when is tea")
        found = await session.search("when is tea")
        stage.note([item.memory.text for item in found.items])
    stage.note([memory.text for memory in (await stage.client.memories.list(DANA)).memories])
    kept = await stage.client.memories.get(DANA, [named("over"), named("expired")])
    stage.note([memory.text for memory in kept.memories], kept.missing_ids)


async def what_was_derived_goes_along(stage: Stage) -> None:
    await stage.write(fact("turn", "Dana said that she flies to Pune", kind="episode"))
    await stage.write(
        fact("trip", "a trip to Pune", source=MemorySource(memory_ids=(named("turn"),))), scope=ACME
    )
    await stage.write(
        fact("packing", "pack for Pune", source=MemorySource(memory_ids=(named("trip"),))),
        fact("tea", "Dana likes tea"),
    )
    stage.note(await stage.client.memories.delete(DANA, [named("turn")]))
    stage.note([memory.text for memory in (await stage.client.memories.list(DANA)).memories])
    stage.note([memory.text for memory in (await stage.client.memories.list(ACME)).memories])


async def what_hooks_hear(stage: Stage) -> None:
    async with stage.client.session(DANA, CALL) as session:
        assert await session.ready(20)
        read = await session.read("anything")
        await stage.note_error(session.read(""))
        await session.search("anything")
        await session.read("anything else")
    names = {session.session_id: "the session"}
    for event in stage.events:
        match event:
            case SessionOpened(session_id, conversation_id):
                stage.note("opened", names[session_id], conversation_id)
            case ReadStarted(session_id, number):
                stage.note("started", names[session_id], number)
            case ReadFinished(session_id, number, found, error):
                stage.note("finished", names[session_id], number, found is read, error)
            case SessionClosed(session_id):
                stage.note("closed", names[session_id])


async def the_past(stage: Stage) -> None:
    await stage.write(fact("4A", "the seat is 4A", key="seat"))
    then = datetime.now(UTC) + timedelta(milliseconds=1)
    async with asyncio.timeout(20):
        while datetime.now(UTC) <= then:  # noqa: ASYNC110 - the wall clock is what is waited for
            await asyncio.sleep(0.001)
    later = MemoryDraft(id=named("9C"), text="the seat is 9C", key="seat", event_time=NOON + timedelta(1))
    await stage.write(later, fact("tea", "tea for two"))
    async with stage.client.session(DANA) as session:
        await stage.search(session, "which seat", as_of=then)
        await stage.search(session, "which seat")
        await stage.search(session, "which seat", as_of=NOON)
    for moment in (then, None):
        for history in (False, True):
            page = await stage.client.memories.list(DANA, as_of=moment, include_history=history)
            stage.note([(memory.text, memory.state) for memory in page.memories])


def visible(memory: Memory) -> tuple[Any, ...]:
    return (
        memory.id, memory.scope, memory.kind, memory.state, memory.text, memory.key, memory.confidence,
        memory.importance, memory.event_time, memory.valid_from, memory.source, memory.questions,
        memory.metadata, memory.pinned, memory.created_version, memory.superseded_version,
    )  # fmt: skip


async def what_is_stored(stage: Stage) -> None:
    await stage.write(fact("plain", "just a text"))
    await stage.write(
        fact(
            "whole",
            "Dana said so",
            kind="emotion",
            key="mood",
            confidence=0.25,
            importance=0.75,
            valid_from=NOON,
            source=MemorySource(conversation_id=CALL, turn_id="t-1", uri="u", memory_ids=(named("plain"),)),
            questions=("how was Dana",),
            metadata={"a": "b"},
            pinned=True,
        ),
    )
    found = await stage.client.memories.get(DANA, [named("whole"), named("plain"), named("nobody")])
    stage.note([visible(memory) for memory in found.memories], found.missing_ids, found.version)
    page = await stage.client.memories.list(DANA, page_size=1)
    rest = await stage.client.memories.list(DANA, page_size=1, page_token=page.next_page_token)
    stage.note([memory.text for memory in (*page.memories, *rest.memories)], bool(rest.next_page_token))
    stage.note((await stage.client.memories.get(EVE, [named("plain")])).missing_ids)


SCRIPTS = (
    reads_in_order,
    nothing_is_known,
    corrections_and_deletions,
    filters,
    turns_with_what_was_said_before,
    an_outage,
    what_is_refused,
    repeats,
    validity,
    what_was_derived_goes_along,
    what_hooks_hear,
    the_past,
    what_is_stored,
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
async def test_fake_and_real_come_to_the_same(
    script: Callable[[Stage], Awaitable[None]], real: Stage, fake: Stage
) -> None:
    await script(real)
    await script(fake)
    assert real.seen, "a script that notes nothing compares nothing"
    for ours, theirs in zip(fake.seen, real.seen, strict=True):
        assert ours == theirs
