"""Writes that wait together go through commit, partitions and announcement together, and are acked alone."""

import asyncio

import pytest

from precall.engine.anticipation.events import Push
from precall.engine.anticipation.stream import Stream
from precall.engine.engine import Engine
from precall.engine.errors import AlreadyExists
from precall.engine.memory.outcomes import WriteOutcome
from precall.engine.tenant import Tenant
from tests.engine.conftest import StartEngine, found, new, write
from tests.fakes.memories import DANA
from tests.fakes.stream_client import StreamClient


async def open_session(engine: Engine, tenant: Tenant) -> Stream:
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    engine.anticipator.open_session(
        tenant_id="t", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=tenant.ladder,
        model=tenant.model(), partitions=await tenant.partitions(DANA), version=tenant.version,
    )  # fmt: skip
    return stream


async def waiting_writes(tenant: Tenant, count: int) -> None:
    """Return when so many wait for the tenant's turn."""
    async with asyncio.timeout(10):
        for _ in iter(lambda: len(tenant._commits._writes._waiting) < count, False):
            await asyncio.sleep(0.001)


async def written_together(tenant: Tenant, *writes: object) -> list[WriteOutcome | BaseException]:
    """Run them with the tenant's turn taken until all of them wait for it."""
    async with tenant._commits.turn:
        tasks = [asyncio.ensure_future(each) for each in writes]  # type: ignore[call-overload]
        await waiting_writes(tenant, len(tasks))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_many_writers_are_one_commit_and_one_push(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, new("old", "pune", key="k"))
    client, stream = StreamClient("s"), await open_session(engine, tenant)
    client.drain(stream)
    pushes = len(client.pushes)
    outcomes = await written_together(
        tenant,
        *(write(tenant, new(f"m{n}", f"pune {n}", key="k" if n < 3 else "", at=n)) for n in range(32)),
    )
    versions = [outcome.version for outcome in outcomes if isinstance(outcome, WriteOutcome)]
    assert sorted(versions) == list(range(2, 34)), "each has a version of its own"
    client.drain(stream)
    assert [push.version for push in client.pushes[pushes:]] == [tenant.version] == [33]
    expected = {f"m{n}" for n in range(2, 32)}
    assert set(client.items) == set(await found(engine, tenant, "pune")) == expected
    tenant.check_integrity()
    engine.anticipator.check_integrity()


async def test_a_bad_write_in_a_group_is_refused_alone(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, new("taken", "pune"))
    good, bad, other = await written_together(
        tenant,
        write(tenant, new("a", "pune")),
        write(tenant, new("b", "pune"), new("taken", "pune")),
        write(tenant, new("c", "pune")),
    )
    assert isinstance(bad, AlreadyExists)
    assert isinstance(good, WriteOutcome) and isinstance(other, WriteOutcome)
    assert (good.version, other.version, tenant.version) == (2, 3, 3)
    assert set(await found(engine, tenant, "pune")) == {"taken", "a", "c"}
    tenant.check_integrity()


async def test_a_neighbour_does_not_wait_for_the_caches_of_what_another_superseded(
    engine: Engine, tenant: Tenant
) -> None:
    await write(tenant, new("old", "pune", key="k"))
    client, stream = StreamClient("s"), await open_session(engine, tenant)
    client.drain(stream)
    await tenant.note_lease(0.2)
    assert engine.anticipator.renew_lease("t", "one", client.applied) == 0.2
    async with tenant._commits.turn:
        superseding = asyncio.create_task(write(tenant, new("new", "pune", key="k", at=1)))
        plain = asyncio.create_task(write(tenant, new("plain", "tea")))
        await waiting_writes(tenant, 2)
    outcome = await asyncio.wait_for(plain, 10)
    assert outcome.version == tenant.version == 3
    assert not superseding.done(), "the client has not dropped what was superseded, and its lease runs"
    client.drain(stream)
    assert (await asyncio.wait_for(superseding, 10)).version == 2
    assert set(client.items) == {"new", "plain"}


async def test_a_retry_in_the_same_group_promises_no_less_than_the_first_try(
    engine: Engine, tenant: Tenant
) -> None:
    await write(tenant, new("old", "pune", key="k"))
    client, stream = StreamClient("s"), await open_session(engine, tenant)
    client.drain(stream)
    assert engine.anticipator.renew_lease("t", "one", client.applied) > 0
    async with tenant._commits.turn:
        tries = [
            asyncio.create_task(write(tenant, new(f"new{n}", "pune", key="k", at=1), request_id="r"))
            for n in range(2)
        ]
        await waiting_writes(tenant, 2)
    event = await stream.next(lambda: engine.anticipator.heartbeat("t"), 10.0)
    assert event is not None and event.confirm and not isinstance(event.body, Push)
    client.apply(event)
    assert not any(each.done() for each in tries)
    client.drain(stream)
    first, second = await asyncio.gather(*tries)
    assert sorted((first.replayed, second.replayed)) == [False, True]
    assert first.written == second.written


@pytest.mark.parametrize("writers", [1, 5])
async def test_what_a_group_wrote_is_there_after_a_restart(
    start_engine: StartEngine, engine: Engine, tenant: Tenant, writers: int
) -> None:
    await written_together(tenant, *(write(tenant, new(f"m{n}", "pune")) for n in range(writers)))
    await engine.close()
    engine = await start_engine()
    tenant = await engine.tenant("t")
    assert tenant.version == writers
    assert set(await found(engine, tenant, "pune")) == {f"m{n}" for n in range(writers)}
