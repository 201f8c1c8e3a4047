"""Hooks hear of everything, in order, and can break nothing."""

import asyncio
import dataclasses

import pytest
from fake_server import FakeServer
from pushes import SCOPE, Stored
from settable import TermEncoder, until

from precall.client import AsyncClient, ClientOptions, InvalidInput
from precall.client.tracing import (
    ClientEvent,
    PushApplied,
    ReadChecked,
    ReadFinished,
    ReadStarted,
    SessionClosed,
    SessionOpened,
    StreamDown,
    StreamUp,
)


class Recorder:
    """A hook that remembers."""

    def __init__(self) -> None:
        self.events: list[ClientEvent] = []

    def __call__(self, event: ClientEvent) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[ClientEvent]:
        return [event for event in self.events if isinstance(event, kind)]


async def test_a_conversation_is_told_from_beginning_to_end(
    server: FakeServer, options: ClientOptions
) -> None:
    server.add(Stored(text="Dana is allergic to peanuts"))
    recorder = Recorder()
    async with (
        AsyncClient(
            server.target, api_key="key", options=options, encoder=TermEncoder(), hooks=[recorder]
        ) as client,
        client.session(SCOPE) as session,
    ):
        assert await session.ready(10)
        read = await session.read("peanuts")
        server.push(server.session, [], caused_by=0)
        await until(lambda: session.state.pushes == 2)
        (opened,) = recorder.of(SessionOpened)
        assert opened.session_id == session.session_id
        assert opened.conversation_id == session.conversation_id
        assert opened.state() == dataclasses.replace(
            session.state, lease_seconds=pytest.approx(session.state.lease_seconds, abs=1.0)
        )
    (up,), (down,) = recorder.of(StreamUp), recorder.of(StreamDown)
    assert up.stream_id == down.stream_id and up.model_fingerprint == server.fingerprint
    first, second = recorder.of(PushApplied)
    assert (first.items, first.session_id, first.lead_seconds) == (1, session.session_id, None)
    assert second.items == 0
    assert recorder.of(ReadStarted) == [ReadStarted(session.session_id, 1)]
    (finished,) = recorder.of(ReadFinished)
    assert finished.read is read and finished.error is None and finished.number == 1
    kinds = [type(event) for event in recorder.events if not isinstance(event, PushApplied)]
    assert kinds[-2:] == [SessionClosed, StreamDown]


async def test_the_stages_of_a_read_add_up(server: FakeServer, client: AsyncClient) -> None:
    server.complete = False
    server.add(Stored(text="Dana is allergic to peanuts"))
    async with client.session(SCOPE) as session:
        assert await session.ready(10)
        read = await session.read("quarterly numbers")
    stages = (read.encode_ms, read.lookup_ms, read.server_ms, read.block_ms)
    assert read.source == "server" and all(stage > 0 for stage in stages)
    assert sum(stages) <= read.elapsed_ms


async def test_a_lead_a_lost_stream_and_a_check_are_told(server: FakeServer, options: ClientOptions) -> None:
    server.complete = False
    server.floor = 0.0
    server.add(Stored(text="Dana is allergic to peanuts"))
    recorder = Recorder()
    checking = dataclasses.replace(options, live_check_share=1.0)
    async with (
        AsyncClient(
            server.target, api_key="key", options=checking, encoder=TermEncoder(), hooks=[recorder]
        ) as client,
        client.session(SCOPE) as session,
    ):
        assert await session.ready(10)
        session.observe("user", "is Dana allergic")
        await until(lambda: session.state.pushes == 2)
        assert recorder.of(PushApplied)[-1].lead_seconds >= 0
        assert (await session.read("is Dana allergic")).decision == "sure"
        await until(lambda: bool(recorder.of(ReadChecked)))
        assert recorder.of(ReadChecked) == [ReadChecked(session.session_id, wrong=False, strict=False)]
        server.break_streams()
        await until(lambda: len(recorder.of(StreamUp)) == 2)
    kinds = [type(event) for event in recorder.events if isinstance(event, StreamUp | StreamDown)]
    assert kinds == [StreamUp, StreamDown] * 2


async def test_reads_that_end_otherwise_are_told(server: FakeServer, options: ClientOptions) -> None:
    recorder = Recorder()
    async with (
        AsyncClient(
            server.target, api_key="key", options=options, encoder=TermEncoder(), hooks=[recorder]
        ) as client,
        client.session(SCOPE) as session,
    ):
        server.complete = False
        server.hold["Search"] = asyncio.Event()
        reading = asyncio.create_task(session.read("quarterly numbers", deadline_ms=60_000))
        await server.called("Search")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        (finished,) = recorder.of(ReadFinished)
        assert finished.read is None and isinstance(finished.error, asyncio.CancelledError)
        with pytest.raises(InvalidInput):
            await session.read("")
        assert len(recorder.of(ReadStarted)) == 1, "what is refused before any work is no read"


async def test_a_hook_that_fails_breaks_nothing_and_is_logged_once(
    server: FakeServer, options: ClientOptions, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(event: ClientEvent) -> None:
        raise ValueError("no such dashboard")

    server.add(Stored(text="Dana is allergic to peanuts"))
    recorder = Recorder()
    async with (
        AsyncClient(
            server.target, api_key="key", options=options, encoder=TermEncoder(), hooks=[failing, recorder]
        ) as client,
        client.session(SCOPE) as session,
    ):
        assert await session.ready(10)
        assert (await session.read("peanuts")).status == "hit"
        assert (await session.read("peanuts")).status == "hit"
    assert len(recorder.of(ReadFinished)) == 2, "the hooks behind a failing one are called"
    assert [record.name for record in caplog.records] == ["precall.client.hook_calls"]
    assert "no such dashboard" in caplog.text
