"""A connection that broke: what is held is named, kept where it is true, and claims nothing till then."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from fake_server import FakeServer
from pushes import SCOPE, Stored, push, rung_claim, whole_rungs
from settable import FINGERPRINT, SettableClock, until

from precall.client import AsyncClient, AsyncSession
from precall.client.cache import SessionCache

PEANUTS = Stored(text="Dana is allergic to peanuts")
SEAT = Stored(text="Dana prefers window seats")


@pytest.fixture
async def session(server: FakeServer, client: AsyncClient) -> AsyncIterator[AsyncSession]:
    server.add(PEANUTS)
    server.add(SEAT)
    async with client.session(SCOPE, uuid.uuid4()) as opened:
        await until(lambda: opened.state.ready)
        yield opened


async def test_what_is_held_is_named_and_not_sent_again(server: FakeServer, session: AsyncSession) -> None:
    server.break_streams()
    first, second = await server.called("OpenSession", 2)
    assert (first.attempt, second.attempt) == (1, 2) and not first.held_ids
    assert dict(zip(second.held_ids, second.held_stamps, strict=True)) == {
        each.id: each.stamp for each in (PEANUTS, SEAT)
    }
    await until(lambda: session.state.ready)
    read = await session.read("peanuts")
    assert (read.source, read.decision) == ("cache", "complete")
    assert read.items[0].memory.id == PEANUTS.id


async def test_what_went_and_came_during_the_break_is_mended(
    server: FakeServer, session: AsyncSession
) -> None:
    server.hold["Watch"] = asyncio.Event()
    server.break_streams()
    await until(lambda: not session.state.connected)
    del server.memories[PEANUTS.id]
    late = Stored(text="Dana sold the peanuts")
    server.add(late)
    server.hold.pop("Watch").set()
    await until(lambda: session.state.ready)
    read = await session.read("peanuts")
    assert (read.source, read.decision) == ("cache", "complete")
    assert {item.memory.id for item in read.items} == {late.id, SEAT.id}


async def test_another_model_is_begun_with_nothing(server: FakeServer, session: AsyncSession) -> None:
    server.fingerprint = "another"
    server.break_streams()
    second = (await server.called("OpenSession", 2))[1]
    assert not second.held_ids


async def test_what_grew_too_old_is_not_named(
    server: FakeServer, session: AsyncSession, clock: SettableClock
) -> None:
    await until(lambda: session.state.lease_fresh)
    clock.ahead += server.maximum_age_seconds + 1
    await until(lambda: session.state.connected and session.state.lease_fresh)
    opened = len(server.calls["OpenSession"])
    await session.read("peanuts")
    anew = (await server.called("OpenSession", opened + 1))[-1]
    assert not anew.held_ids


async def test_what_went_while_its_name_was_on_its_way_is_not_counted_on(
    server: FakeServer, session: AsyncSession
) -> None:
    """Dropped by a client after it was named, an item would be one that the server claims to have sent."""
    server.hold["OpenSession"] = asyncio.Event()
    server.break_streams()
    second = (await server.called("OpenSession", 2))[1]
    assert SEAT.id in second.held_ids
    session._subscription.cache.invalidate([SEAT.id], version=0, superseded=False)
    server.hold.pop("OpenSession").set()
    third = (await server.called("OpenSession", 3))[2]
    assert not third.held_ids
    await until(lambda: session.state.ready)
    assert {item.memory.id for item in (await session.read("seats")).items} == {PEANUTS.id, SEAT.id}


async def test_ready_waits_for_the_end_of_an_outage(server: FakeServer, session: AsyncSession) -> None:
    server.hold["Watch"] = asyncio.Event()
    server.break_streams()
    await until(lambda: not session.state.connected)
    assert not await session.ready(0.05), "what came over the connection that broke is not the present"
    server.hold.pop("Watch").set()
    assert await session.ready(10)


async def test_ready_waits_on_when_the_connection_breaks_before_its_first_lease(
    server: FakeServer, client: AsyncClient
) -> None:
    server.add(PEANUTS)
    server.hold["RenewLease"] = asyncio.Event()
    async with client.session(SCOPE, uuid.uuid4()) as opened:
        waiting = asyncio.create_task(opened.ready(10))
        await until(lambda: opened._subscription.cache.settled)
        assert not waiting.done()
        server.hold.pop("RenewLease")
        server.break_streams()
        assert await waiting


def cache() -> SessionCache:
    made = SessionCache(SCOPE, max_items=10, max_bytes=1_000_000)
    made.adopt(fingerprint=FINGERPRINT, maximum_age=3600.0)
    made.apply(whole_rungs([PEANUTS, SEAT], push_id=1, reset=True), elapsed=0.0)
    return made


class TestCache:
    def test_until_the_first_push_was_whole_nothing_is_claimed(self) -> None:
        made = cache()
        assert made.settled and made.complete_rungs
        made.go_on()
        made.check_integrity()
        assert made.items == 2 and not made.settled and not made.complete_rungs and made.version == 0
        made.confirm(9)
        assert made.version == 0, "a heartbeat confirms nothing of what is not settled"
        claims = [rung_claim(level, [PEANUTS] if level == "user" else [], complete=True) for level in SCOPE]
        made.apply(push(push_id=1, resumed=True, evicted=[SEAT.id], last=False), elapsed=1.0)
        assert not made.settled
        made.apply(push(push_id=1, rungs=claims, version=7), elapsed=1.0)
        made.check_integrity()
        assert made.settled and set(made.complete_rungs) == set(SCOPE) and made.version == 7

    def test_a_refused_item_of_before_casts_no_doubt_on_a_push_of_the_same_number(self) -> None:
        made = cache()
        foreign = Stored(text="not ours", scope={"customer": "acme", "user": "eve"})
        made.apply(push([foreign], push_id=2), elapsed=0.0)
        assert not made.complete_rungs
        made.go_on()
        claims = [
            rung_claim(level, [PEANUTS, SEAT] if level == "user" else [], complete=True) for level in SCOPE
        ]
        assert made.apply(push(push_id=2, rungs=claims), elapsed=1.0).settled
        assert set(made.complete_rungs) == set(SCOPE)

    def test_what_is_gone_on_with_ages_from_its_own_push(self) -> None:
        made = cache()
        made.go_on()
        made.apply(push(push_id=1, resumed=True), elapsed=3000.0)
        assert made.stamps().keys() == {PEANUTS.id, SEAT.id}
        made._drop_aged(3601.0)
        assert made.items == 0 and made.aged
