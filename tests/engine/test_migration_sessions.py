"""Conversations go through a switch: their streams end, and the next ones bring what is the new model's."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.events import PushedMemory, StreamOpened
from precall.engine.anticipation.stream import Stream
from precall.engine.engine import Engine
from precall.engine.errors import StreamNotFound
from precall.engine.memory.ladder import Ladder
from precall.engine.tenant import Tenant
from precall.engine.tenant_model import TenantModel
from tests.engine.conftest import new, write
from tests.engine.two_models import NEW, OLD, TwoModels, assert_vectors_of, finish, start
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA
from tests.fakes.stream_client import StreamClient

HELLO = Turn(TurnRole.USER, "a train to pune")


@pytest.fixture
async def models(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TwoModels]:
    models = TwoModels(tmp_path, clock)
    yield models
    await models.close()


@pytest.fixture
async def engine(models: TwoModels) -> Engine:
    return await models.start()


@pytest.fixture
async def tenant(engine: Engine) -> Tenant:
    tenant = await engine.create_tenant("t", Ladder(("customer", "user")))
    await write(tenant, new("a", "train to pune"), new("b", "green tea", ACME))
    return tenant


def open_stream(engine: Engine, tenant: Tenant, stream_id: str) -> Stream:
    return engine.anticipator.open_stream("t", stream_id, tenant.model().card)


async def open_session(
    engine: Engine, tenant: Tenant, stream_id: str, model: TenantModel | None = None
) -> StreamClient:
    model = tenant.model() if model is None else model
    engine.anticipator.open_session(
        tenant_id="t", stream_id=stream_id, session_id="s", conversation_id="", rung=DANA,
        ladder=tenant.ladder, model=model, partitions=await tenant.partitions(DANA, model),
        version=tenant.version,
    )  # fmt: skip
    return StreamClient("s")


async def taken(client: StreamClient, stream: Stream) -> StreamOpened:
    """Apply what is queued; the event that the stream opened with."""
    opened = stream._queue[0].body
    assert isinstance(opened, StreamOpened)
    client.drain(stream)
    return opened


def assert_all_of(client: StreamClient, models: TwoModels, fingerprint: str) -> None:
    items: list[PushedMemory] = list(client.items.values())
    assert items
    assert_vectors_of([item.indexed for item in items], models.encoder(fingerprint))


async def test_clients_come_back_to_the_new_model_and_to_the_old_one(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    await start(engine, tenant, models.new)
    steps = [tenant.migrating.switch, tenant.migrating.roll_back]
    for number, (card, step) in enumerate(zip((OLD, NEW, OLD), [*steps, None], strict=True)):
        stream = open_stream(engine, tenant, str(number))
        client = await open_session(engine, tenant, str(number))
        opened = await taken(client, stream)
        assert (opened.model_fingerprint, tuple(opened.model_scripts)) == (card.fingerprint, card.scripts)
        assert_all_of(client, models, card.fingerprint)
        await write(tenant, new(f"w{number}", "tea on the train"))
        client.drain(stream)
        assert f"w{number}" in client.items
        assert_all_of(client, models, card.fingerprint)
        if step is None:
            break
        await step()
        assert not stream.open
        assert stream.ended_because == "the tenant's model was changed"
        assert await stream.next(lambda: engine.anticipator.heartbeat("t"), 10) is None
        engine.anticipator.close_stream(stream, "the connection ended")
    assert stream.open
    engine.anticipator.check_integrity()


async def test_finishing_ends_no_stream(models: TwoModels, engine: Engine, tenant: Tenant) -> None:
    await start(engine, tenant, models.new)
    await tenant.migrating.switch()
    stream = open_stream(engine, tenant, "one")
    client = await open_session(engine, tenant, "one")
    await finish(tenant)
    await write(tenant, new("c", "pune"))
    assert stream.open
    client.drain(stream)
    assert set(client.items) == {"a", "b", "c"}
    assert_all_of(client, models, NEW.fingerprint)


async def test_other_tenants_keep_their_streams(models: TwoModels, engine: Engine, tenant: Tenant) -> None:
    other = await engine.create_tenant("other", tenant.ladder)
    stream = engine.anticipator.open_stream("other", "two", other.model().card)
    await start(engine, tenant, models.new)
    await tenant.migrating.switch()
    assert stream.open
    assert other.model().fingerprint == OLD.fingerprint


async def test_what_conversations_ask_is_embedded_by_the_model_of_their_session(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    """A rung too large to be held whole, so that predictions push coverages."""
    await write(tenant, *(new(f"m{n}", f"train number {n}") for n in range(10)))
    engine.anticipator.settings = replace(engine.anticipator.settings, complete_below=5)
    await start(engine, tenant, models.new)
    await tenant.migrating.switch()
    stream = open_stream(engine, tenant, "one")
    client = await open_session(engine, tenant, "one")
    await taken(client, stream)
    engine.anticipator.observe("t", "s", 1, HELLO, partial=False)
    async with asyncio.timeout(20):
        for _ in iter(lambda: bool(client.coverages), True):
            await asyncio.sleep(0.001)
            client.drain(stream)
    for coverage in client.coverages.values():
        assert coverage.vector.shape == (NEW.dimension,)
        assert abs(float(coverage.vector @ models.new.vector(HELLO.text)) - 1) < 1e-4
    assert_all_of(client, models, NEW.fingerprint)


async def test_a_prediction_that_a_switch_overtakes_comes_to_nothing(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    await write(tenant, *(new(f"m{n}", f"train number {n}") for n in range(10)))
    engine.anticipator.settings = replace(engine.anticipator.settings, complete_below=5)
    await start(engine, tenant, models.new)
    old = open_stream(engine, tenant, "one")
    client = await open_session(engine, tenant, "one")
    await taken(client, old)
    models.old.hold()
    engine.anticipator.observe("t", "s", 1, HELLO, partial=False)
    await models.old.somebody_waits()
    await tenant.migrating.switch()
    stream = open_stream(engine, tenant, "two")
    again = await open_session(engine, tenant, "two")
    models.old.let_go()
    predictions = list(engine.anticipator._prediction._tasks)
    await asyncio.gather(*predictions)
    assert predictions
    sent = len(client.pushes)
    client.drain(old)
    assert len(client.pushes) == sent
    await taken(again, stream)
    (coverage,) = again.coverages.values()  # what was said goes on: the new model was asked for it
    assert len(coverage.vector) == NEW.dimension
    assert_all_of(again, models, NEW.fingerprint)


async def test_a_session_is_not_opened_on_a_stream_of_another_model(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    """Neither on the one that ended, nor with partitions that were asked for before the switch."""
    await start(engine, tenant, models.new)
    before = tenant.model()
    open_stream(engine, tenant, "one")
    await tenant.migrating.switch()
    with pytest.raises(StreamNotFound):
        await open_session(engine, tenant, "one", before)
    with pytest.raises(StreamNotFound):
        await open_session(engine, tenant, "one")
    open_stream(engine, tenant, "two")
    with pytest.raises(StreamNotFound):
        await open_session(engine, tenant, "two", before)
    await open_session(engine, tenant, "two")


async def test_a_delete_waits_for_what_a_client_may_serve_from_before_the_switch(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    await start(engine, tenant, models.new)
    stream = open_stream(engine, tenant, "one")
    client = await open_session(engine, tenant, "one")
    await taken(client, stream)
    await tenant.note_lease(0.2)
    assert engine.anticipator.renew_lease("t", "one", client.applied) > 0
    await tenant.migrating.switch()
    assert engine.anticipator.renew_lease("t", "one", client.applied) == 0.0, (
        "no new lease on an ended stream"
    )
    engine.anticipator.close_stream(stream, "the connection ended")
    deleting = asyncio.create_task(tenant.delete(["a"], visible_from=None, request_id=None))
    await asyncio.wait({deleting}, timeout=0.05)
    assert not deleting.done(), "the lease of before the switch still runs"
    models.clock.advance(1)
    await asyncio.wait_for(deleting, 10)
