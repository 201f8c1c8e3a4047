"""Many sessions of one process share one Watch stream, and nothing else."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

import pytest
from fake_server import FakeServer
from pushes import Stored
from settable import until

from precall.client import AsyncClient, AsyncSession

USERS: Final = 20


def scope(user: int) -> dict[str, str]:
    return {"customer": "acme", "user": f"user {user}"}


def fact(user: int) -> Stored:
    return Stored(text=f"number {user} is allergic to peanuts", scope=scope(user))


@pytest.fixture
async def sessions(server: FakeServer, client: AsyncClient) -> AsyncIterator[list[AsyncSession]]:
    server.add(*(fact(user) for user in range(USERS)))
    async with AsyncExitStack() as opened:
        made = [
            await opened.enter_async_context(client.session(scope(user), uuid.uuid4()))
            for user in range(USERS)
        ]
        await until(lambda: all(session.state.ready for session in made))
        yield made


async def found(session: AsyncSession) -> list[str]:
    read = await session.read("peanuts")
    assert (read.source, read.decision) == ("cache", "complete")
    return [item.memory.text for item in read.items]


async def test_each_holds_its_own_and_one_stream_carries_them_all(
    server: FakeServer, sessions: list[AsyncSession]
) -> None:
    assert [await found(session) for session in sessions] == [[fact(user).text] for user in range(USERS)]
    assert len(server.calls["Watch"]) == 1


async def test_all_go_on_with_what_they_hold_when_it_breaks(
    server: FakeServer, sessions: list[AsyncSession]
) -> None:
    server.break_streams()
    again = (await server.called("OpenSession", 2 * USERS))[USERS:]
    assert sorted(len(request.held_ids) for request in again) == [1] * USERS
    await until(lambda: all(session.state.ready for session in sessions))
    assert [await found(session) for session in sessions] == [[fact(user).text] for user in range(USERS)]
    assert len(server.calls["Watch"]) == 2


async def test_the_end_of_one_leaves_the_others(server: FakeServer, sessions: list[AsyncSession]) -> None:
    await sessions[3].__aexit__(None, None, None)
    late = Stored(text="number 4 likes peanuts", scope=scope(4))
    server.add(late)
    server.break_streams()
    await server.called("OpenSession", 2 * USERS - 1)
    await until(lambda: all(session.state.ready for session in others(sessions)))
    assert len(server.sessions) == USERS - 1
    assert set(await found(sessions[4])) == {fact(4).text, late.text}


def others(sessions: list[AsyncSession]) -> list[AsyncSession]:
    return [session for number, session in enumerate(sessions) if number != 3]
