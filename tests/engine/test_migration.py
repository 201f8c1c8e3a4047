"""A tenant comes from one model to another and back, and each search is one model's alone."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from precall.engine.engine import Engine
from precall.engine.errors import FingerprintMismatch, InvalidVector, MigrationRefused, ModelChanged
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.migration import MigrationState
from precall.engine.preparing import GivenVector
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Tenant
from precall.scoring.terms import analyze
from tests.engine.conftest import new, write
from tests.engine.two_models import (
    ALIKE,
    NEW,
    HeldEncoder,
    TwoModels,
    ask,
    assert_scored_by,
    assert_vectors_of,
    finish,
    idle,
    search,
    start,
)
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, moment

LADDER = Ladder(("customer", "user"))
TEXT = "pune train tea"


@pytest.fixture(params=[NEW, ALIKE], ids=["of-another-length", "of-the-same-length"])
async def models(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[TwoModels]:
    models = TwoModels(tmp_path, clock, new=request.param)
    yield models
    await models.close()


@pytest.fixture
async def engine(models: TwoModels) -> Engine:
    return await models.start()


@pytest.fixture
async def tenant(engine: Engine) -> Tenant:
    """Some memories on two rungs, one of them history."""
    tenant = await engine.create_tenant("t", LADDER)
    await write(tenant, new("aisle", "aisle seat to pune", key="seat"), new("tea", "green tea"))
    await write(
        tenant, new("window", "window seat to pune", key="seat", at=1), new("train", "the train", ACME)
    )
    return tenant


def assert_served_by(tenant: Tenant, encoder: HeldEncoder) -> None:
    assert tenant.model().fingerprint == tenant.store.model_fingerprint == encoder.card.fingerprint
    tenant.check_integrity()
    tenant.store.check_integrity()
    for rung in (ACME, DANA):
        assert_vectors_of(tenant.store.load_rung(rung), encoder)


async def answered(tenant: Tenant, encoder: HeldEncoder, ids: set[str]) -> None:
    """A search that knows nothing of migrations finds these, by this model's vectors."""
    found = await ask(tenant, TEXT)
    assert {hit.memory.id for hit in found.hits} == ids
    assert_scored_by(found, encoder, TEXT)
    assert_served_by(tenant, encoder)


async def test_the_whole_way_there(
    models: TwoModels, engine: Engine, tenant: Tenant, clock: FakeClock
) -> None:
    then = moment(clock.wall())
    ids = {"window", "tea", "train"}
    await answered(tenant, models.old, ids)
    migration = await start(engine, tenant, models.new)
    assert (migration.done, migration.total) == (4, 4), "history has its vectors too"
    await answered(tenant, models.old, ids)
    clock.advance(10)
    await write(tenant, new("late", "late train"))
    assert (await idle(tenant)).ready

    report = await tenant.migrating.switch()
    assert report.migration is not None
    assert report.migration.state is MigrationState.SWITCHED
    await answered(tenant, models.new, ids | {"late"})
    await write(tenant, new("after", "tea after the switch"))
    await tenant.delete(["tea"], visible_from=None, request_id=None)
    await answered(tenant, models.new, {"window", "train", "late", "after"})

    await finish(tenant)
    await write(tenant, new("last", "pune at last"))
    await answered(tenant, models.new, {"window", "train", "late", "after", "last"})
    query = Query(models.new.vector(TEXT), analyze(TEXT), clock.wall(), limit=50)
    past = await tenant.search(DANA, query, as_of=then)
    assert {hit.memory.id for hit in past.hits} == {"window", "train"}
    assert_scored_by(past, models.new, TEXT)
    await engine.close()
    engine = await models.start(models.new)
    await answered(await engine.tenant("t"), models.new, {"window", "train", "late", "after", "last"})


async def test_there_and_back_and_there_again(models: TwoModels, engine: Engine, tenant: Tenant) -> None:
    await start(engine, tenant, models.new)
    await tenant.migrating.switch()
    await write(
        tenant, new("between", "tea between the models"), new("home", "window home", key="seat", at=2)
    )
    ids = {"home", "tea", "train", "between"}
    await answered(tenant, models.new, ids)
    report = await tenant.migrating.roll_back()
    assert report.migration is not None
    assert report.migration.state is MigrationState.ROLLED_BACK
    await answered(tenant, models.old, ids)
    assert (await idle(tenant)).done == 0, "nothing is left of the new model"
    await start(engine, tenant, models.new)
    await tenant.migrating.switch()
    await answered(tenant, models.new, ids)
    await finish(tenant)
    await start(engine, tenant, models.old)
    await tenant.migrating.switch()
    await answered(tenant, models.old, ids)
    await finish(tenant)
    await answered(tenant, models.old, ids)


async def test_what_the_new_model_has_goes_when_it_is_rolled_back_before_the_switch(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    await start(engine, tenant, models.new)
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    await tenant.migrating.roll_back()
    assert stream.open, "nobody noticed"
    await answered(tenant, models.old, {"window", "tea", "train"})
    with pytest.raises(FingerprintMismatch):
        tenant.model(models.new.card.fingerprint)


async def test_steps_from_a_wrong_state_are_refused_and_leave_everything_as_it_is(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    migrating, old, new_model = tenant.migrating, *engine.models
    assert (await migrating.report()).migration is None
    for step in (migrating.switch, migrating.roll_back, migrating.finish):
        with pytest.raises(MigrationRefused):
            await step()
    with pytest.raises(MigrationRefused, match="already"):
        await migrating.start(old)
    models.new.hold()
    await migrating.start(new_model)
    await models.new.somebody_waits()
    switching = asyncio.create_task(migrating.switch())
    await asyncio.wait({switching}, timeout=0.01)
    models.new.let_go()
    with pytest.raises(MigrationRefused):
        await switching
    assert (await idle(tenant)).ready, "a step that was refused lets the backfill go on"
    with pytest.raises(MigrationRefused):
        await migrating.finish()
    with pytest.raises(MigrationRefused):
        await migrating.start(old)
    await answered(tenant, models.old, {"window", "tea", "train"})
    await migrating.switch()
    for step in (migrating.switch, lambda: migrating.start(old), lambda: migrating.start(new_model)):
        with pytest.raises(MigrationRefused):
            await step()
    await finish(tenant)
    with pytest.raises(MigrationRefused):
        await migrating.roll_back()
    await answered(tenant, models.new, {"window", "tea", "train"})


async def test_a_given_vector_is_that_of_the_model_that_it_names(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    async def given(memory_id: str, encoder: HeldEncoder) -> None:
        vector = GivenVector(5 * encoder.vector("zeppelin"), encoder.card.fingerprint)
        await tenant.write([new(memory_id, "green tea")], [vector], request_id=None, truncate=False)

    def stored(memory_id: str, encoder: HeldEncoder) -> np.ndarray:
        rows = tenant.store.load_rung(DANA, encoder.card.fingerprint)
        return next(each.vector for each in list(rows) if each.memory.id == memory_id)

    def is_of(memory_id: str, encoder: HeldEncoder, text: str) -> bool:
        return bool(np.abs(stored(memory_id, encoder) - encoder.vector(text)).max() < 2e-3)

    with pytest.raises(FingerprintMismatch) as refused:
        await given("early", models.new)
    assert refused.value.metadata["position"] == "0"
    await start(engine, tenant, models.new)
    await given("old", models.old)
    await given("new", models.new)
    await tenant.migrating.switch()
    await given("old-later", models.old)
    await given("new-later", models.new)
    for memory_id, own, other in (
        ("old", models.old, models.new),
        ("new", models.new, models.old),
        ("old-later", models.old, models.new),
        ("new-later", models.new, models.old),
    ):
        assert is_of(memory_id, own, "zeppelin"), memory_id
        assert is_of(memory_id, other, "green tea"), memory_id
    wrong = GivenVector(np.ones(7, np.float32), models.old.card.fingerprint)
    with pytest.raises(InvalidVector):
        await tenant.write([new("wrong", "tea")], [wrong], request_id=None, truncate=False)
    await finish(tenant)
    with pytest.raises(FingerprintMismatch):
        await given("late", models.old)
    tenant.check_integrity()


async def test_a_search_ends_on_the_model_that_it_began_with(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    began_with = tenant.model()
    await start(engine, tenant, models.new)
    with pytest.raises(FingerprintMismatch, match="not all there"):
        await ask(tenant, TEXT, model=tenant.model(models.new.card.fingerprint))
    await tenant.migrating.switch()
    await write(tenant, new("after", "tea after the switch"))
    await tenant.delete(["tea"], visible_from=None, request_id=None)
    found = await ask(tenant, TEXT, model=began_with)
    assert {hit.memory.id for hit in found.hits} == {"window", "train", "after"}, (
        "the old model misses nothing"
    )
    assert_scored_by(found, models.old, TEXT)
    await answered(tenant, models.new, {"window", "train", "after"})


@pytest.mark.parametrize("end", ["roll_back", "finish"])
async def test_a_search_with_a_model_that_is_given_up_is_told_to_begin_anew(
    models: TwoModels, engine: Engine, tenant: Tenant, end: str
) -> None:
    """One that has read its partitions, and one that has not."""
    await start(engine, tenant, models.new)
    await tenant.migrating.switch()
    gone = models.new if end == "roll_back" else models.old
    model = tenant.model(gone.card.fingerprint)
    vector = gone.vector(TEXT)
    scanning, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*_: object) -> list[object]:
        scanning.set()
        await go_on.wait()
        return []

    query = Query(vector, analyze(TEXT), 0.0)
    searching = asyncio.create_task(
        tenant.search(DANA, query, model=model, method=slowly)  # type: ignore[arg-type]
    )
    await scanning.wait()
    await getattr(tenant.migrating, end)()
    go_on.set()
    with pytest.raises(ModelChanged):
        await searching
    with pytest.raises(ModelChanged):
        await search(tenant, TEXT, vector, model)
    with pytest.raises(ModelChanged):
        await tenant.search(DANA, query, model=model, as_of=moment(0))
    await idle(tenant)
    left = models.old if end == "roll_back" else models.new
    await answered(tenant, left, {"window", "tea", "train"})


@pytest.mark.parametrize("step", ["switch", "roll_back"])
async def test_a_write_that_is_overtaken_by_a_step_is_prepared_anew_and_read_back(
    models: TwoModels, engine: Engine, tenant: Tenant, step: str
) -> None:
    await start(engine, tenant, models.new)
    if step == "roll_back":
        await tenant.migrating.switch()
    serving = models.encoder(tenant.model().fingerprint)
    serving.hold()
    writing = asyncio.create_task(write(tenant, new("mine", "tea of mine")))
    await serving.somebody_waits()
    await getattr(tenant.migrating, step)()
    serving.let_go()
    outcome = await writing
    found = await ask(tenant, TEXT)
    assert "mine" in {hit.memory.id for hit in found.hits}
    assert found.version >= outcome.version
    now = models.new if step == "switch" else models.old
    assert_scored_by(found, now, TEXT)
    await idle(tenant)
    assert_served_by(tenant, now)


async def test_a_step_whose_caller_hangs_up_happens_whole(
    models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(engine, tenant, models.new)
    store, switched, go_on = tenant.store.switch_migration, threading.Event(), threading.Event()

    def slowly() -> None:
        store()
        switched.set()
        assert go_on.wait(20)

    monkeypatch.setattr(tenant.store, "switch_migration", slowly)
    switching = asyncio.create_task(tenant.migrating.switch())
    assert await asyncio.to_thread(switched.wait, 20)
    switching.cancel()
    await asyncio.wait({switching})
    writing = asyncio.create_task(write(tenant, new("mine", "tea of mine")))
    go_on.set()
    await writing
    await answered(tenant, models.new, {"window", "tea", "train", "mine"})


async def test_a_retired_models_partitions_leave_memory(
    models: TwoModels, engine: Engine, tenant: Tenant
) -> None:
    await ask(tenant, TEXT)
    assert tenant.in_memory == len(engine.residency) == 2
    await start(engine, tenant, models.new)
    tenant.model(models.new.card.fingerprint).partitions.clear()  # of what the comparison read
    await tenant.migrating.switch()
    assert set(tenant.model().partitions) == {ACME, DANA}, "no read after the switch waits for the disk"
    await finish(tenant)
    assert tenant.in_memory == len(engine.residency) == 2
    engine.residency.check_integrity()


async def test_a_moment_of_the_past_is_searched_by_each_model_with_its_own_vectors(
    models: TwoModels, engine: Engine, tenant: Tenant, clock: FakeClock
) -> None:
    """Though it is kept for a while, and the tenant's version is that of before the switch."""
    then = moment(clock.wall())
    await start(engine, tenant, models.new)

    async def assert_answers_by(encoder: HeldEncoder) -> None:
        query = Query(encoder.vector(TEXT), analyze(TEXT), clock.wall(), limit=50)
        model = tenant.model(encoder.card.fingerprint)
        found = await tenant.search(DANA, query, model=model, as_of=then)
        assert {hit.memory.id for hit in found.hits} == {"window", "tea", "train"}
        assert_scored_by(found, encoder, TEXT)

    await assert_answers_by(models.old)
    await tenant.migrating.switch()
    await assert_answers_by(models.new)
    await assert_answers_by(models.old)
    await tenant.migrating.roll_back()
    await assert_answers_by(models.old)
