"""Whatever is cancelled, nothing of it is left running."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest
from fake_server import FakeServer
from pushes import SCOPE, Stored
from settable import TermEncoder, until

from precall.client import AsyncClient, AsyncSession, ClientEvent, ClientOptions, SessionClosed

COME_AND_GO = "precall-renew-lease"


def running() -> set[str]:
    """Names of the client's tasks, but for those of each heartbeat."""
    names = {task.get_name() for task in asyncio.all_tasks()}
    return {name for name in names if name.startswith("precall-") and name != COME_AND_GO}


async def cancelled(awaited: asyncio.Task[object]) -> None:
    awaited.cancel()
    with pytest.raises(asyncio.CancelledError):
        await awaited


@pytest.fixture
async def session(server: FakeServer, client: AsyncClient) -> AsyncIterator[AsyncSession]:
    server.complete = False
    server.floor = 1.0
    server.add(Stored(text="Dana is allergic to peanuts"))
    async with client.session(SCOPE) as session:
        assert await session.ready(10)
        yield session


@pytest.mark.parametrize("query", ["quarterly numbers", "is Dana allergic to peanuts"])
async def test_a_read(server: FakeServer, session: AsyncSession, query: str) -> None:
    """A miss, and a borderline one that races."""
    session.observe("user", "is Dana allergic to peanuts")
    await until(lambda: session.state.pushes == 2)
    before = running()
    server.hold["Search"] = asyncio.Event()
    await_read = asyncio.create_task(session.read(query, deadline_ms=60_000))
    await server.called("Search")
    await cancelled(await_read)
    assert running() == before
    await until(lambda: server.gone["Search"] == 1)
    del server.hold["Search"]
    assert (await session.read(query)).status == "hit"


async def test_a_read_that_is_embedding(server: FakeServer, options: ClientOptions) -> None:
    class Endless(TermEncoder):
        async def encode(self, text: str) -> None:  # type: ignore[override]
            self.encoded.append(text)
            await asyncio.Event().wait()

    encoder = Endless()
    async with (
        AsyncClient(server.target, api_key="key", options=options, encoder=encoder) as client,
        client.session(SCOPE) as session,
    ):
        assert await session.ready(10)
        before = running()
        reading = asyncio.create_task(session.read("peanuts"))
        await until(lambda: bool(encoder.encoded))
        await cancelled(reading)
        assert running() == before and reading.cancelled()


async def test_leaving_a_session(server: FakeServer, client: AsyncClient) -> None:
    session = client.session(SCOPE)
    without = running()
    await session.__aenter__()
    assert await session.ready(10)
    server.hold["ObserveTurn"] = asyncio.Event()
    session.observe("user", "said last")
    await server.called("ObserveTurn")
    assert running() > without
    leaving = asyncio.create_task(session.__aexit__(None, None, None))
    await asyncio.sleep(0)  # it waits for the turn to be taken
    await cancelled(leaving)
    assert running() == without


async def test_leaving_a_client(server: FakeServer, options: ClientOptions) -> None:
    patient = dataclasses.replace(options, close_deadline_seconds=60.0)
    client = AsyncClient(server.target, api_key="key", options=patient, encoder=TermEncoder())
    await client.__aenter__()
    session = await client.session(SCOPE).__aenter__()
    assert await session.ready(10)
    server.hold["ReportReads"] = asyncio.Event()
    await session.read("peanuts")
    leaving = asyncio.create_task(client.__aexit__(None, None, None))
    await server.called("ReportReads")
    await cancelled(leaving)
    assert not running()


async def test_a_client_ends_the_sessions_that_are_still_open(
    server: FakeServer, options: ClientOptions
) -> None:
    closed: list[ClientEvent] = []
    async with AsyncClient(
        server.target, api_key="key", options=options, encoder=TermEncoder(), hooks=[closed.append]
    ) as client:
        session = await client.session(SCOPE).__aenter__()
        assert await session.ready(10)
    assert not running() and not server.sessions
    await session.__aexit__(None, None, None)  # its own block may end later
    assert closed.count(SessionClosed(session.session_id)) == 1
