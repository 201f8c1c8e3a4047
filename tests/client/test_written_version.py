"""A server that was put back to an earlier state: nothing it has lost is waited for."""

import asyncio
import logging
import uuid

import pytest
from fake_server import FakeServer
from pushes import SCOPE, Stored
from settable import until

from precall.client import AsyncClient
from precall.client.written_version import WrittenVersion

PEANUTS = Stored(text="Dana is allergic to peanuts")


async def test_a_session_does_not_wait_for_what_the_server_has_lost(
    server: FakeServer, client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.add(PEANUTS)
    async with client.session(SCOPE, uuid.uuid4()) as session:
        await until(lambda: session.state.ready)
        earlier = server.version
        written = await session.remember("Dana sold the peanuts")
        assert (await session.read("peanuts")).version >= written.version

        server.hold["Watch"] = asyncio.Event()
        server.break_streams()
        await until(lambda: not session.state.connected)
        del server.memories[written.id]
        server.version = earlier
        with caplog.at_level(logging.ERROR):
            server.hold.pop("Watch").set()
            await until(lambda: session.state.ready)
            read = await session.read("peanuts")
        assert (read.status, read.source, read.version) == ("hit", "cache", earlier)
        assert [item.memory.id for item in read.items] == [PEANUTS.id]
        assert "put back to an earlier state" in caplog.text


async def test_a_connection_that_broke_loses_no_demand(server: FakeServer, client: AsyncClient) -> None:
    async with client.session(SCOPE, uuid.uuid4()) as session:
        await until(lambda: session.state.ready)
        written = await session.remember("Dana sold the peanuts")
        server.break_streams()
        await server.called("OpenSession", 2)
        await until(lambda: session.state.ready)
        assert (await session.read("peanuts")).version >= written.version


def test_the_newest_version_counts() -> None:
    written = WrittenVersion()
    written.note(7)
    written.note(5)
    assert written.version == 7
    assert not written.server_stands_at(7, asked_at=7)
    assert not written.server_stands_at(9, asked_at=7)
    assert written.version == 7


def test_what_was_written_after_the_question_stands() -> None:
    written = WrittenVersion()
    written.note(7)
    written.note(4 + 7)
    assert written.server_stands_at(3, asked_at=7)
    assert written.version == 11


def test_what_was_lost_is_not_demanded() -> None:
    written = WrittenVersion()
    written.note(7)
    assert written.server_stands_at(3, asked_at=7)
    assert written.version == 3
