"""A migration goes on after a restart, says what it needs of the server, and outlasts a model that fails."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precall.engine.batching.batcher import Batcher
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import TextRole
from precall.engine.engine import Engine
from precall.engine.errors import (
    ConfigurationError,
    Draining,
    FingerprintMismatch,
    InvalidInput,
    MigrationRefused,
    ModelUnavailable,
    NotFound,
    NumericsError,
    Overloaded,
    StorageUnavailable,
)
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.migration import MigrationState
from precall.engine.memory.store import TenantStore
from precall.engine.models import Model, Models
from precall.engine.preparing import GivenVector
from precall.engine.tenant import Tenant
from tests.engine.conftest import new, write
from tests.engine.two_models import (
    NEW,
    OLD,
    POISON,
    HeldEncoder,
    TwoModels,
    ask,
    assert_scored_by,
    broken,
    finish,
    idle,
    outcome_of,
    start,
    until,
)
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import ACME, DANA

LADDER = Ladder(("customer", "user"))
TEXT = "pune tea"


@pytest.fixture
async def models(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TwoModels]:
    models = TwoModels(tmp_path, clock)
    yield models
    await models.close()


@pytest.fixture
async def engine(models: TwoModels) -> Engine:
    return await models.start()


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precall.engine.migration.backfill._ROWS", 2)
    monkeypatch.setattr("precall.engine.migration.run._SETTLED_AT_ONCE", 2)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precall.engine.migration.stop_signal._FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("precall.engine.migration.stop_signal._LONGEST_PAUSE_SECONDS", 0.002)


def refused(monkeypatch: pytest.MonkeyPatch, store: TenantStore, name: str, *, times: int) -> list[bool]:
    """The disk refuses the first calls of a method; returns what is left of the refusals."""
    left, method = [True] * times, getattr(store, name)

    def called(*arguments: Any, **named: Any) -> Any:
        if left:
            left.pop()
            raise StorageUnavailable("the disk is full")
        return method(*arguments, **named)

    monkeypatch.setattr(store, name, called)
    return left


@pytest.fixture
async def tenant(engine: Engine, few_at_once: None) -> Tenant:
    return await filled(engine)


async def filled(engine: Engine, count: int = 9) -> Tenant:
    tenant = await engine.create_tenant("t", LADDER)
    await write(tenant, *(new(f"m{n}", f"pune tea {n}", (ACME, DANA)[n % 2]) for n in range(count)))
    return tenant


async def answered(tenant: Tenant, encoder: HeldEncoder, count: int = 9) -> None:
    found = await ask(tenant, TEXT)
    assert len(found.hits) == count
    assert_scored_by(found, encoder, TEXT)
    tenant.check_integrity()
    tenant.store.check_integrity()


class Gate:
    """Keeps the second call of a store's method from ending."""

    def __init__(self, method: Callable[..., object]) -> None:
        self._method = method
        self._calls = 0
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, *arguments: object, **named: object) -> object:
        done = self._method(*arguments, **named)
        self._calls += 1
        if self._calls == 2:
            self.reached.set()
            assert self.open.wait(20)
        return done


async def closed_at(gate: Gate, engine: Engine, tenant: Tenant) -> None:
    """Close the engine while the background stands at the gate: it may finish what it has in hand."""
    assert await asyncio.to_thread(gate.reached.wait, 20)
    closing = asyncio.create_task(engine.close())
    async with asyncio.timeout(20):
        for _ in iter(lambda: tenant.migrating._closing, True):
            await asyncio.sleep(0.001)
    gate.open.set()
    await closing


class TestResume:
    async def test_a_backfill_goes_on_where_it_was(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = Gate(tenant.store.add_next_vectors)
        monkeypatch.setattr(tenant.store, "add_next_vectors", gate)
        await tenant.migrating.start(engine.models.named(NEW.name))
        await closed_at(gate, engine, tenant)
        assert len(models.new.embedded) < 9 + 2, "the probe, and not all of the memories"
        models.new.embedded.clear()
        engine = await models.start()
        tenant = await engine.tenant("t")
        assert (await until(tenant, lambda report: not report.running)).error == ""
        migration = await idle(tenant)
        assert migration.ready
        again = [models.new.embedded.count(tokens(models.new, f"pune tea {n}")) for n in range(4)]
        assert again == [0] * 4, "what was made before is not made again"
        await tenant.migrating.switch()
        await answered(tenant, models.new)

    @pytest.mark.parametrize("way", ["finish", "roll_back"])
    async def test_settling_goes_on_where_it_was(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        gate = Gate(tenant.store.settle_migration)
        monkeypatch.setattr(tenant.store, "settle_migration", gate)
        await getattr(tenant.migrating, way)()
        await closed_at(gate, engine, tenant)
        left = models.new if way == "finish" else models.old
        engine = await models.start(left)  # the other model is not needed any more
        tenant = await engine.tenant("t")
        migration = await idle(tenant)
        assert migration.state is (MigrationState.FINISHED if way == "finish" else MigrationState.ROLLED_BACK)
        assert migration.done == (migration.total if way == "finish" else 0)
        await answered(tenant, left)

    async def test_a_half_settled_tenant_is_read_and_written(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        gate = Gate(tenant.store.settle_migration)
        monkeypatch.setattr(tenant.store, "settle_migration", gate)
        await tenant.migrating.finish()
        assert await asyncio.to_thread(gate.reached.wait, 20)
        await write(tenant, new("more", "pune tea and more"))
        await tenant.delete(["m1", "m8"], visible_from=None, request_id=None)
        tenant.model().partitions.clear()  # and read from the half that is moved and the half that is not
        await answered(tenant, models.new, 8)
        gate.open.set()
        assert (await idle(tenant)).state is MigrationState.FINISHED
        tenant.model().partitions.clear()
        await answered(tenant, models.new, 8)

    async def test_a_new_start_waits_until_the_last_ones_vectors_are_gone(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await start(engine, tenant, models.new)
        gate = Gate(tenant.store.settle_migration)
        monkeypatch.setattr(tenant.store, "settle_migration", gate)
        await tenant.migrating.roll_back()
        assert await asyncio.to_thread(gate.reached.wait, 20)
        starting = asyncio.create_task(tenant.migrating.start(engine.models.named(NEW.name)))
        await asyncio.wait({starting}, timeout=0.01)
        gate.open.set()
        await starting
        assert (await idle(tenant)).ready

    async def test_closing_does_not_wait_for_a_start_that_clears_what_was_rolled_back(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await start(engine, tenant, models.new)
        gate = Gate(tenant.store.settle_migration)
        monkeypatch.setattr(tenant.store, "settle_migration", gate)
        await tenant.migrating.roll_back()
        assert await asyncio.to_thread(gate.reached.wait, 20)
        starting = asyncio.create_task(outcome_of(tenant.migrating.start(engine.models.named(NEW.name))))
        await asyncio.wait({starting}, timeout=0.01)
        await closed_at(gate, engine, tenant)
        assert isinstance(await starting, Draining)
        tenant = await (await models.start()).tenant("t")
        assert (await idle(tenant)).done == 0

    async def test_a_delete_in_the_middle_of_a_batch_is_passed_over(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        models.new.hold()
        await tenant.migrating.start(engine.models.named(NEW.name))
        await models.new.somebody_waits()
        await tenant.delete(["m0", "m1"], visible_from=None, request_id=None)
        models.new.let_go()
        migration = await idle(tenant)
        assert migration.ready
        assert migration.total == 7
        await tenant.migrating.switch()
        await answered(tenant, models.new, 7)


def tokens(encoder: HeldEncoder, text: str) -> bytes:
    return encoder.tokenize(text, TextRole.QUERY, truncate=True).token_ids.tobytes()


class TestOneModel:
    async def test_a_tenant_in_backfilling_is_served_by_the_old_model_alone(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        await start(engine, tenant, models.new)
        await engine.close()
        engine = await models.start(models.old)
        tenant = await engine.tenant("t")
        await write(tenant, new("more", "pune tea and more"))
        await answered(tenant, models.old, 10)
        with pytest.raises(MigrationRefused, match="is not loaded"):
            await tenant.migrating.switch()
        migration = await idle(tenant)
        assert (migration.done, migration.total) == (9, 10)
        await engine.close()
        engine = await models.start(models.new, models.old)  # in either order
        tenant = await engine.tenant("t")
        assert (await idle(tenant)).ready
        await tenant.migrating.switch()
        await answered(tenant, models.new, 10)

    async def test_a_backfill_can_be_rolled_back_without_the_new_model(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        await start(engine, tenant, models.new)
        await engine.close()
        engine = await models.start(models.old)
        tenant = await engine.tenant("t")
        await tenant.migrating.roll_back()
        assert (await idle(tenant)).done == 0
        await answered(tenant, models.old)

    async def test_a_switched_tenant_needs_both_and_says_so(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        await engine.close()
        for alone in (models.old, models.new):
            engine = await models.start(alone)
            with pytest.raises(FingerprintMismatch, match="needs both") as refused:
                await engine.tenant("t")
            assert "finish" in refused.value.message
            await engine.close()
        engine = await models.start(models.new, models.old)
        await answered(await engine.tenant("t"), models.new)

    async def test_a_tenant_of_another_model_is_refused(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        await engine.close()
        engine = await models.start(models.new)
        with pytest.raises(FingerprintMismatch, match=OLD.fingerprint):
            await engine.tenant("t")
        await engine.delete_tenant("t")

    async def test_new_tenants_get_the_primary(self, models: TwoModels, engine: Engine) -> None:
        assert (await engine.create_tenant("a", LADDER)).model().fingerprint == OLD.fingerprint
        await engine.close()
        engine = await models.start(models.new, models.old)
        assert (await engine.create_tenant("b", LADDER)).model().fingerprint == NEW.fingerprint
        assert (await engine.tenant("a")).model().fingerprint == OLD.fingerprint


class TestFailingModel:
    async def test_until_the_switch_the_new_one_fails_no_write(
        self, models: TwoModels, engine: Engine, tenant: Tenant, short_pauses: None
    ) -> None:
        broken(models.new)
        await tenant.migrating.start(engine.models.named(NEW.name))
        await write(tenant, new("more", "pune tea and more"))
        report = await until(tenant, lambda report: report.error != "")
        assert "MODEL_UNAVAILABLE" in report.error
        assert report.running
        await answered(tenant, models.old, 10)
        models.new.broken = False
        assert (await idle(tenant)).ready
        assert (await tenant.migrating.report()).error == ""
        broken(models.new)
        await write(tenant, new("last", "pune tea at last"))
        with pytest.raises(MigrationRefused, match="10 of 11"):
            await tenant.migrating.switch()
        models.new.broken = False
        assert (await idle(tenant)).ready, "the write that lacked it woke the backfill"
        await tenant.migrating.switch()
        await answered(tenant, models.new, 11)

    async def test_a_vector_that_was_given_of_the_new_one_is_kept_though_it_fails_beside(
        self, models: TwoModels, engine: Engine, tenant: Tenant, short_pauses: None
    ) -> None:
        await start(engine, tenant, models.new)
        broken(models.new)
        given = GivenVector(models.new.vector("zeppelin"), NEW.fingerprint)
        batch = [new("given", "pune tea"), new("more", "pune tea and more")]
        outcome = await tenant.write(batch, [given, None], request_id=None, truncate=False)
        assert [each.other_vector is None for each in outcome.added] == [False, True]
        models.new.broken = False
        assert (await idle(tenant)).ready
        stored = {each.memory.id: each.vector for each in tenant.store.load_rung(DANA, NEW.fingerprint)}
        assert float(stored["given"] @ models.new.vector("zeppelin")) > 0.99

    async def test_a_write_waits_no_longer_for_a_model_that_hangs_than_it_must(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("precall.engine.preparing._PATIENCE_SECONDS", 0.01)
        await start(engine, tenant, models.new)
        models.new.hold()
        outcome = await write(tenant, new("more", "pune tea and more"))
        assert outcome.added[0].other_vector is None
        models.new.let_go()
        assert (await idle(tenant)).ready

    @pytest.mark.parametrize("failing", ["old", "new"])
    async def test_after_the_switch_either_one_fails_a_write_and_nothing_else(
        self, models: TwoModels, engine: Engine, tenant: Tenant, failing: str
    ) -> None:
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        encoder = getattr(models, failing)
        broken(encoder)
        assert isinstance(await outcome_of(write(tenant, new("more", "pune"))), ModelUnavailable)
        encoder.broken, encoder.poisoned = False, True
        error = await outcome_of(write(tenant, new("good", "pune"), new("bad", f"pune {POISON}")))
        assert isinstance(error, NumericsError)
        assert error.metadata["position"] == "1"
        await answered(tenant, models.new)
        await tenant.delete(["m0"], visible_from=None, request_id=None)
        await answered(tenant, models.new, 8)

    async def test_what_is_gone_for_good_fails_nothing_while_it_is_finished(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        broken(models.old)
        await finish(tenant)
        await write(tenant, new("more", "pune tea and more"))
        await answered(tenant, models.new, 10)

    async def test_what_was_rolled_back_fails_nothing(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        await start(engine, tenant, models.new)
        await tenant.migrating.switch()
        broken(models.new)
        await tenant.migrating.roll_back()
        await write(tenant, new("more", "pune tea and more"))
        assert (await idle(tenant)).done == 0
        await answered(tenant, models.old, 10)

    async def test_a_text_that_the_new_model_cannot_embed_stops_the_run_and_does_not_spin(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        models.new.poisoned = True
        await write(tenant, new("bad", f"pune {POISON}"))
        await tenant.migrating.start(engine.models.named(NEW.name))
        migration = await idle(tenant)
        report = await tenant.migrating.report()
        assert "NUMERICS" in report.error
        assert "one memory gets no vector of the new model: bad;" in report.error
        assert POISON not in report.error, "nobody's words stand in an error"
        assert (migration.done, migration.total) == (9, 10)
        passes = models.new.forward_passes
        await write(tenant, new("more", "pune tea and more"))
        await tenant.migrating.settled()
        assert models.new.forward_passes == passes + 1, "a write that lacks nothing does not wake it"
        models.new.poisoned = False
        await tenant.migrating.start(engine.models.named(NEW.name))
        assert (await idle(tenant)).ready
        assert (await tenant.migrating.report()).error == ""

    async def test_a_text_that_cannot_be_embedded_can_be_deleted(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        models.new.poisoned = True
        await write(tenant, new("bad", f"pune {POISON}"))
        await tenant.migrating.start(engine.models.named(NEW.name))
        await tenant.migrating.settled()
        await write(tenant, new("after", "pune tea once more"))
        migration = await idle(tenant)
        assert (migration.done, migration.total) == (10, 11), "the others have theirs"
        await tenant.delete(["bad"], visible_from=None, request_id=None)
        assert (await idle(tenant)).ready, "nobody has to start it again"
        assert (await tenant.migrating.report()).error == ""

    async def test_a_disk_that_refuses_for_a_while_is_asked_again(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("precall.engine.migration.stop_signal._FIRST_PAUSE_SECONDS", 0.001)
        adding = refused(monkeypatch, tenant.store, "add_next_vectors", times=3)
        await tenant.migrating.start(engine.models.named(NEW.name))
        assert (await idle(tenant)).ready and not any(adding)
        await tenant.migrating.switch()
        settling = refused(monkeypatch, tenant.store, "settle_migration", times=3)
        await tenant.migrating.finish()
        assert (await idle(tenant)).state is MigrationState.FINISHED and not any(settling)
        assert (await tenant.migrating.report()).error == ""

    async def test_a_write_does_not_wait_for_a_backfill_that_has_far_to_go(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        models.new.hold()
        await tenant.migrating.start(engine.models.named(NEW.name))
        other = tenant._pair.other
        assert other is not None
        while not other.is_far_behind:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)
        outcome = await asyncio.wait_for(write(tenant, new("more", "pune tea and more")), 4)
        assert outcome.added[0].other_vector is None
        models.new.let_go()
        assert (await idle(tenant)).ready

    async def test_a_backfill_waits_as_long_as_a_refusal_says(
        self, models: TwoModels, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        batcher = engine.models.named(NEW.name).batcher
        embed, refusals = batcher.embed, iter([0.02, 0.03])
        asked: list[float] = []

        async def busy(*arguments: object, **named: object) -> object:
            asked.append(asyncio.get_running_loop().time())
            if (seconds := next(refusals, None)) is not None:
                raise Overloaded("busy", retry_after_seconds=seconds)
            return await embed(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(batcher, "embed", busy)
        await tenant.migrating.start(engine.models.named(NEW.name))
        assert (await idle(tenant)).ready
        assert asked[1] - asked[0] >= 0.02
        assert asked[2] - asked[1] >= 0.03

    async def test_an_engine_closes_while_a_backfill_waits_for_a_model(
        self, models: TwoModels, engine: Engine, tenant: Tenant
    ) -> None:
        broken(models.new)
        await tenant.migrating.start(engine.models.named(NEW.name))
        await until(tenant, lambda report: report.error != "")
        async with asyncio.timeout(20):
            await engine.close()


class TestModels:
    def test_a_model_has_a_name_and_a_fingerprint(self) -> None:
        old, new_model = model(OLD), model(NEW)
        models = Models(old, new_model)
        assert list(models) == [old, new_model]
        assert models.named(NEW.name) is models.named(NEW.fingerprint) is new_model
        with pytest.raises(NotFound, match=OLD.fingerprint):
            models.named("another")

    def test_a_model_with_shorter_vectors_has_the_same_name(self) -> None:
        shorter = replace(OLD, dimension=16)
        models = Models(model(OLD), model(shorter))
        with pytest.raises(InvalidInput, match=shorter.fingerprint):
            models.named(OLD.name)
        assert models.named(shorter.fingerprint).card.dimension == 16

    def test_the_next_model_is_another_one(self) -> None:
        with pytest.raises(ConfigurationError, match="next model"):
            Models(model(OLD), model(OLD))


def model(card: ModelCard) -> Model:
    encoder = FakeEncoder(card)
    return Model(encoder, Batcher(encoder))
