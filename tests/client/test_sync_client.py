"""The client without await: same answers, any thread, a clean end."""

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_server import FakeServer
from pushes import SCOPE, Stored
from settable import TermEncoder

from precall.client import (
    Client,
    ClientClosed,
    ClientOptions,
    FakeAsyncClient,
    FakeAsyncSession,
    FakeClient,
    InvalidInput,
    Unavailable,
)
from precall.client.loop_thread import LoopThread


@pytest.fixture
def threaded_server() -> Iterator[tuple[FakeServer, LoopThread]]:
    """A server that runs in a thread of its own, since the test's thread blocks."""
    thread = LoopThread()
    thread.start()
    fake = FakeServer()
    fake.add(Stored(text="Dana is allergic to peanuts"), Stored(text="Dana flies to Pune"))
    thread.run(fake.start())
    yield fake, thread
    thread.run(fake.stop())
    thread.close()


def test_a_conversation(threaded_server: tuple[FakeServer, LoopThread], options: ClientOptions) -> None:
    server, thread = threaded_server
    with (
        Client(server.target, api_key="key", options=options, encoder=TermEncoder()) as client,
        client.session(SCOPE) as session,
    ):
        assert session.ready(10)
        session.observe("user", "any allergies?")
        read = session.read("allergic to peanuts")
        assert (read.source, read.decision) == ("cache", "complete")
        written = session.remember("Dana likes lassi")
        assert session.read("lassi").items[0].memory.id == written.id
        assert session.search("lassi").items[0].memory.id == written.id
        assert session.forget(written.id).deleted_ids == (written.id,)
        assert session.state.items == 2 and session.scope == SCOPE
        with pytest.raises(InvalidInput):
            session.observe("user", "")
        with pytest.raises(InvalidInput):
            session.read("")
        observed = thread.run(server.called("ObserveTurn"))
        assert observed[0].text == "any allergies?"
        assert client.forget_scope(SCOPE).deleted == 2


def test_it_may_be_called_from_many_threads(
    threaded_server: tuple[FakeServer, LoopThread], options: ClientOptions
) -> None:
    server, _ = threaded_server
    with (
        Client(server.target, api_key="key", options=options, encoder=TermEncoder()) as client,
        client.session(SCOPE) as session,
        ThreadPoolExecutor(8) as threads,
    ):
        assert session.ready(10)
        reads = list(threads.map(lambda number: session.read(f"peanuts {number}"), range(40)))
    assert {read.items[0].memory.text for read in reads} == {"Dana is allergic to peanuts"}


def test_it_ends_cleanly_and_says_when_it_is_closed(options: ClientOptions) -> None:
    before = threading.active_count()
    client = Client("127.0.0.1:1", api_key="key", options=options, encoder=TermEncoder())
    with pytest.raises(ClientClosed):
        client.session(SCOPE)
    with client, client.session(SCOPE) as session:
        assert session.read("anything").status == "degraded"
    with pytest.raises(ClientClosed):
        session.read("anything")
    assert threading.active_count() == before


def test_a_blocking_call_from_its_own_thread_is_refused_and_not_deadlocked() -> None:
    with FakeClient() as client, client.session(SCOPE) as session:
        caught: list[Exception] = []

        async def inside() -> None:
            try:
                session.read("anything")
            except ClientClosed as error:
                caught.append(error)

        session._thread.run(inside())
        assert "AsyncClient" in str(caught[0])


def test_errors_come_out_as_they_are() -> None:
    with FakeClient() as client, client.session(SCOPE) as session:
        client.go_offline()
        with pytest.raises(Unavailable):
            session.remember("anything")
        assert session.read("anything").status == "degraded"
        client.go_online()
        assert session.remember("anything").version == 1


async def test_it_may_be_used_where_an_event_loop_runs() -> None:
    before = threading.active_count()
    with FakeClient() as client, client.session(SCOPE) as session:
        session.remember("Dana likes lassi")
        assert session.read("lassi").items
    assert threading.active_count() == before


def test_a_client_is_entered_once_and_a_second_try_does_no_harm() -> None:
    before = threading.active_count()
    client = FakeClient()
    with client, client.session(SCOPE) as session:
        with pytest.raises(ClientClosed):
            client.__enter__()
        assert session.read("anything").status == "empty"
    with pytest.raises(ClientClosed, match="once"):
        client.__enter__()
    assert threading.active_count() == before


def test_what_an_async_generator_holds_is_let_go_on_its_own_loop() -> None:
    thread = LoopThread()
    thread.start()
    closed_in: list[str] = []
    begun: list[AsyncGenerator[int, None]] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            closed_in.append(threading.current_thread().name)

    async def begin() -> None:
        begun.append(numbers())
        await anext(begun[0])

    thread.run(begin())
    thread.close()
    assert closed_in == ["precall-client"]


def test_the_loop_thread_cancels_what_is_left() -> None:
    thread = LoopThread()
    thread.start()
    ended = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tasks: list[asyncio.Task[None]] = []

    async def begin() -> None:
        tasks.append(asyncio.create_task(endless()))
        await asyncio.sleep(0)

    thread.run(begin())
    thread.close()
    assert ended.is_set()


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As at a terminal: a shell lets what it starts in the background ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_an_interrupt_cancels_the_call_and_waits_for_its_end() -> None:
    thread = LoopThread()
    thread.start()
    steps: list[str] = []

    async def endless() -> None:
        interrupt_main_thread()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("ended")

    with pytest.raises(KeyboardInterrupt):
        thread.run(endless())
    assert steps == ["ended"]
    thread.close()


@pytest.mark.parametrize("handed_over", [False, True])
def test_an_interrupt_may_come_before_the_call_waits(
    handed_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = LoopThread()
    thread.start()
    ended = threading.Event()
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    hand_over = thread._loop.call_soon_threadsafe

    def interrupted(function: Callable[[], None]) -> None:
        monkeypatch.undo()
        if handed_over:
            hand_over(function)
            assert begun.wait(10)
        raise KeyboardInterrupt

    coroutine = endless()
    monkeypatch.setattr(thread._loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.run(coroutine)
    assert ended.is_set() == handed_over
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    thread.close()


def test_an_interrupted_read_leaves_a_client_that_reads_on(
    threaded_server: tuple[FakeServer, LoopThread], options: ClientOptions
) -> None:
    server, _ = threaded_server
    server.complete = False
    before = threading.active_count()
    with (
        Client(server.target, api_key="key", options=options, encoder=TermEncoder()) as client,
        client.session(SCOPE) as session,
    ):
        assert session.ready(10)
        server.hold["Search"] = asyncio.Event()
        interrupting = threading.Timer(0.1, interrupt_main_thread)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            session.read("quarterly numbers", deadline_ms=60_000)
        interrupting.join()
        del server.hold["Search"]
        assert session.read("allergic to peanuts").status == "hit"
        assert not session._thread.run(names_of_tasks()) & {"precall-check", "precall-probe"}
    assert threading.active_count() == before


async def names_of_tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


def test_a_session_whose_entering_was_interrupted_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeClient() as client:
        session = client.session(SCOPE)
        enter = FakeAsyncSession.__aenter__

        async def interrupted(entered: FakeAsyncSession) -> FakeAsyncSession:
            await enter(entered)
            interrupt_main_thread()
            await asyncio.Event().wait()
            return entered

        monkeypatch.setattr(FakeAsyncSession, "__aenter__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.__enter__()
        with pytest.raises(ClientClosed):
            session._thread.run(session._inner.read("anything"))


def test_an_interrupted_leaving_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    client = FakeClient()

    async def endless(*_: object) -> None:
        interrupt_main_thread()
        await asyncio.Event().wait()

    monkeypatch.setattr(FakeAsyncClient, "__aexit__", endless)
    with pytest.raises(KeyboardInterrupt), client:
        pass
    assert threading.active_count() == before


def test_a_call_that_waits_hears_that_the_client_was_closed() -> None:
    thread = LoopThread()
    thread.start()
    waiting = threading.Event()

    async def endless() -> None:
        waiting.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(thread.run, endless())
        assert waiting.wait(10)
        thread.close()
        with pytest.raises(ClientClosed, match="before this was done"):
            call.result(10)
    thread.close()


def test_a_turn_is_not_taken_by_a_session_that_is_not_open() -> None:
    with FakeClient() as client:
        session = client.session(SCOPE)
        with pytest.raises(ClientClosed):
            session.observe("user", "too early")
        with session:
            session.observe("user", "in time")
        with pytest.raises(ClientClosed):
            session.observe("user", "too late")
