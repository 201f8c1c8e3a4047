"""What stays in memory and what goes, that nothing is lost by it, and that nobody in the middle notices."""

import asyncio
import logging
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.engine import Engine, EngineSettings
from precall.engine.errors import ConfigurationError, StorageUnavailable, TenantQuarantined
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.residency import MEGABYTE, Residency, ResidencySettings
from precall.engine.resident_partitions import LoadedPartition
from precall.engine.tenant import Tenant
from tests.engine.conftest import ANTICIPATION, found, new, write
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.stream_client import StreamClient

LADDER = Ladder(("customer", "user"))
A_RUNG = 20_000
"""About the bytes of a rung with a few memories."""


class Observed:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.loaded = self.evicted = self.oversized = 0

    def partition_loaded(self, seconds: float) -> None:
        assert seconds > 0
        self.loaded += 1

    def partition_evicted(self) -> None:
        self.evicted += 1

    def partition_oversized(self) -> None:
        self.oversized += 1


StartSmall = Callable[..., Awaitable[Engine]]


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
async def start_small(tmp_path: Path, clock: FakeClock, observed: Observed) -> AsyncIterator[StartSmall]:
    """Starts an engine on the test's folder with room for so many bytes of partitions."""
    started: list[Engine] = []

    async def start(budget_bytes: int = 1, **residency: int) -> Engine:
        settings = EngineSettings(
            tmp_path / "data",
            anticipation=ANTICIPATION,
            partitions=PartitionSettings(exact_below=20),
            residency=ResidencySettings(budget_bytes, **residency),
        )
        engine = Engine(settings, FakeEncoder(), clock=clock, residency_observer=observed)
        await engine.start()
        started.append(engine)
        return engine

    yield start
    for engine in started:
        await engine.close()


async def make(engine: Engine, tenant_id: str, memories: int = 2) -> Tenant:
    tenant = await engine.create_tenant(tenant_id, LADDER)
    await write(tenant, *(new(f"{tenant_id}{n}", f"pune {n}") for n in range(memories)))
    return tenant


def in_memory(tenant: Tenant) -> set[Rung]:
    return set(tenant.model().partitions)


class Gate:
    """Lets a thread say that it has come to a place, and keeps it there."""

    def __init__(self) -> None:
        self._come, self._go_on = threading.Event(), threading.Event()

    def wait_here(self) -> None:
        self._come.set()
        assert self._go_on.wait(10)

    async def somebody_waits(self) -> None:
        assert await asyncio.to_thread(self._come.wait, 10)

    def open(self) -> None:
        self._go_on.set()


class Thing:
    """A `Resident` that knows what became of it."""

    def __init__(self, nbytes: int, *, in_use: bool = False) -> None:
        self.name = "a thing"
        self.nbytes = nbytes
        self.in_use = in_use
        self.gone = False

    def let_go(self) -> None:
        assert not self.gone and not self.in_use
        self.gone = True


class TestThePolicy:
    def test_the_least_recently_used_goes_first(self, observed: Observed) -> None:
        residency, things = Residency(30, observed), [Thing(10) for _ in range(4)]
        for thing in things[:3]:
            residency.admit(thing)
        residency.used(things[0])
        residency.admit(things[3])
        assert [thing.gone for thing in things] == [False, True, False, False]
        assert (residency.nbytes, len(residency), observed.evicted) == (30, 3, 1)

    def test_what_is_in_use_stays_even_over_the_budget(self) -> None:
        residency, held = Residency(10), Thing(8, in_use=True)
        residency.admit(held)
        residency.admit(idle := Thing(5))
        residency.admit(Thing(8, in_use=True))
        assert not held.gone and idle.gone
        assert residency.nbytes == 16
        residency.check_integrity()

    def test_what_is_larger_than_the_budget_comes_and_all_else_goes(
        self, observed: Observed, caplog: pytest.LogCaptureFixture
    ) -> None:
        residency, others = Residency(3 * MEGABYTE, observed), [Thing(MEGABYTE) for _ in range(3)]
        for thing in others:
            residency.admit(thing)
        with caplog.at_level(logging.WARNING):
            residency.admit(giant := Thing(5 * MEGABYTE, in_use=True))
        assert not giant.gone and all(thing.gone for thing in others)
        assert observed.oversized == 1
        assert "a thing takes 5 MB, the budget for all is 3 MB" in caplog.text
        giant.in_use = False
        residency.admit(Thing(1, in_use=True))
        assert giant.gone and residency.nbytes == 1

    def test_what_grows_makes_others_go(self) -> None:
        residency, first, second = Residency(20), Thing(10, in_use=True), Thing(10)
        residency.admit(first)
        residency.admit(second)
        first.nbytes = 11
        residency.grew(first)
        assert second.gone and residency.nbytes == 11
        residency.grew(second)
        assert residency.nbytes == 11, "what has gone already counts no more"

    @given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["want", "hold", "leave", "grow"]))))
    def test_no_sequence_breaks_the_books(self, steps: list[tuple[int, str]]) -> None:
        residency = Residency(100)
        things: dict[int, Thing] = {}
        for number, step in steps:
            thing = things.get(number)
            if thing is None or thing.gone:
                thing = things[number] = Thing(10 * (number + 1), in_use=True)
                residency.admit(thing)
                thing.in_use = step == "hold"
            elif step in ("want", "hold"):
                thing.in_use = True
                residency.used(thing)
                residency.make_room()
                thing.in_use = step == "hold"
            elif step == "leave":
                thing.in_use = False
            else:
                thing.nbytes += 5
                residency.grew(thing)
            alive = [each for each in things.values() if not each.gone]
            assert set(residency._sizes) == set(alive)
            assert residency.nbytes == sum(each.nbytes for each in alive)
            if step != "leave":
                assert residency.nbytes <= 100 or all(t is thing or t.in_use for t in alive)
        residency.check_integrity()

    def test_settings_are_checked(self) -> None:
        for name in ("budget_bytes", "loads_at_once", "open_files"):
            with pytest.raises(ConfigurationError, match=name):
                ResidencySettings(**{name: 0})


class TestLoading:
    async def test_a_cold_rung_answers_as_a_warm_one(
        self, start_small: StartSmall, observed: Observed
    ) -> None:
        engine = await start_small()
        first, second = await make(engine, "a", 40), await make(engine, "b")
        before = await found(engine, first, "pune 3")
        assert len(before) == 40
        assert await found(engine, second, "pune")
        assert in_memory(first) == set() and observed.evicted >= 1
        assert await found(engine, first, "pune 3") == before
        first.check_integrity()
        engine.residency.check_integrity()

    async def test_readers_who_come_together_load_once(
        self, start_small: StartSmall, observed: Observed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await start_small(10 * MEGABYTE)
        tenant, gate, load, loads = await make(engine, "a"), Gate(), None, Counter[Rung]()
        load = tenant.model()._load

        def counted(rung: Rung) -> LoadedPartition:
            loads[rung] += 1
            gate.wait_here()
            return load(rung)

        monkeypatch.setattr(tenant.model(), "_load", counted)
        readers = [asyncio.create_task(found(engine, tenant, "pune")) for _ in range(20)]
        await gate.somebody_waits()
        readers[0].cancel()  # the one that began it: the others must not pay for that
        gate.open()
        answers = await asyncio.gather(*readers, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert all(set(answer) == {"a0", "a1"} for answer in answers[1:] if isinstance(answer, list))
        assert loads == {DANA: 1, ACME: 1} and observed.loaded == 2

    async def test_only_so_many_load_at_a_time_and_writes_do_not_wait_for_them(
        self, start_small: StartSmall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await start_small(10 * MEGABYTE, loads_at_once=2)
        gate, guard, running, most = Gate(), threading.Lock(), 0, 0
        tenants = [await make(engine, name) for name in "abcde"]

        def slowed(load: Callable[[Rung], LoadedPartition]) -> Callable[[Rung], LoadedPartition]:
            def load_slowly(rung: Rung) -> LoadedPartition:
                nonlocal running, most
                with guard:
                    running += 1
                    most = max(most, running)
                gate.wait_here()
                with guard:
                    running -= 1
                return load(rung)

            return load_slowly

        for tenant in tenants:
            monkeypatch.setattr(tenant.model(), "_load", slowed(tenant.model()._load))
        reading = [asyncio.create_task(found(engine, tenant, "pune")) for tenant in tenants]
        await gate.somebody_waits()
        async with asyncio.timeout(10):
            await write(tenants[4], new("more", "pune"))  # its own load stands behind the others'
        gate.open()
        await asyncio.gather(*reading)
        assert most <= 2
        assert "more" in await found(engine, tenants[4], "pune")

    async def test_a_load_that_fails_is_told_to_all_and_tried_again(
        self, start_small: StartSmall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await start_small()
        tenant = await make(engine, "a")
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "fill", lambda *_, **__: (_ for _ in ()).throw(ValueError("damaged")))
            told = await asyncio.gather(
                *(found(engine, tenant, "pune") for _ in range(3)), return_exceptions=True
            )
        assert all(isinstance(each, TenantQuarantined) for each in told)
        assert set(await found(engine, tenant, "pune")) == {"a0", "a1"}

    async def test_a_tenant_is_cold_until_it_is_read_and_again_once_it_is_at_rest(
        self, start_small: StartSmall
    ) -> None:
        engine = await start_small()
        await make(engine, "a")
        await engine.close()
        engine = await start_small(open_files=1)
        assert not engine.is_open("a") and not engine.is_open("nobody")
        await found(engine, await engine.tenant("a"), "pune")
        assert engine.is_open("a") and engine.open_tenants == 1
        await found(engine, await make(engine, "b"), "pune")
        assert engine.is_open("b") and not engine.is_open("a") and engine.open_tenants == 1
        assert set(await found(engine, await engine.tenant("a"), "pune")) == {"a0", "a1"}

    async def test_nobody_waits_for_another_tenant_that_opens_slowly(
        self, start_small: StartSmall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await start_small()
        for name in "ab":
            await make(engine, name)
        await engine.close()
        engine = await start_small()
        gate, opened = Gate(), engine.registry.open

        def slow_for_a(tenant_id: str) -> object:
            if tenant_id == "a":
                gate.wait_here()
            return opened(tenant_id)

        monkeypatch.setattr(engine.registry, "open", slow_for_a)
        slow = [asyncio.create_task(engine.tenant("a")) for _ in range(2)]
        await gate.somebody_waits()
        async with asyncio.timeout(10):
            assert (await engine.tenant("b")).version == 1
        gate.open()
        first, second = await asyncio.gather(*slow)
        assert first is second

    async def test_a_closed_tenant_takes_its_rungs_out_of_memory(self, start_small: StartSmall) -> None:
        engine = await start_small(10 * MEGABYTE)
        tenant = await make(engine, "a")
        await found(engine, tenant, "pune")
        assert len(engine.residency) == 2
        await engine.delete_tenant("a")
        assert (len(engine.residency), engine.residency.nbytes) == (0, 0)
        with pytest.raises(StorageUnavailable):
            await found(engine, tenant, "pune")


class TestWhatIsInUse:
    async def test_a_session_keeps_its_rungs_until_it_is_closed(self, start_small: StartSmall) -> None:
        engine = await start_small()
        tenant, other = await make(engine, "a"), await make(engine, "b")
        stream = engine.anticipator.open_stream("a", "one", tenant.model().card)
        engine.anticipator.open_session(
            tenant_id="a", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=LADDER,
            model=tenant.model(), partitions=await tenant.partitions(DANA), version=tenant.version,
        )  # fmt: skip
        await found(engine, other, "pune")
        assert in_memory(tenant) == {DANA, ACME}
        client = StreamClient("s")
        await write(tenant, new("more", "pune"))
        client.drain(stream)
        assert set(client.items) == {"a0", "a1", "more"}
        engine.anticipator.close_session("a", "s")
        await found(engine, await make(engine, "c"), "pune")
        assert in_memory(tenant) == set()

    async def test_a_search_keeps_its_rungs_to_its_end(
        self, start_small: StartSmall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = await start_small()
        tenant, other, gate = await make(engine, "a"), await make(engine, "b"), Gate()
        monkeypatch.setattr("precall.engine.retrieval.search._INLINE_MEMORIES", 0)  # on a thread
        candidates = Partition.candidates

        def waiting(self: Partition, *arguments: object) -> object:
            if "a0" in self:
                gate.wait_here()
            return candidates(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Partition, "candidates", waiting)
        searching = asyncio.create_task(found(engine, tenant, "pune"))
        await gate.somebody_waits()
        await found(engine, other, "pune")
        assert DANA in in_memory(tenant)
        await write(tenant, new("more", "pune"))
        gate.open()
        assert {"a0", "a1"} <= set(await searching)
        del searching
        await found(engine, await make(engine, "c"), "pune")
        assert in_memory(tenant) == set()

    async def test_a_rung_that_leaves_between_commit_and_index_has_the_write_when_it_comes_back(
        self, start_small: StartSmall, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """weaviate#4276: what was being written while its index was unloaded was lost."""
        engine = await start_small()
        tenant, other, gate = await make(engine, "a"), await make(engine, "b"), Gate()
        await found(engine, tenant, "pune")
        apply = Partition.apply

        def apply_late(self: Partition, **change: object) -> None:
            if self is leaving:
                gate.wait_here()
            apply(self, **change)  # type: ignore[arg-type]

        leaving = tenant.model().partitions[DANA]
        monkeypatch.setattr(Partition, "apply", apply_late)
        writing = asyncio.create_task(write(tenant, new("more", "pune")))
        await gate.somebody_waits()  # it is committed, and stands before the index
        await found(engine, other, "pune")
        assert DANA not in in_memory(tenant)
        reading = asyncio.create_task(found(engine, tenant, "pune"))
        await found(engine, other, "pune")
        gate.open()
        await writing
        assert set(await reading) == {"a0", "a1", "more"}
        tenant.check_integrity()


async def test_a_rung_larger_than_the_budget_is_served(
    start_small: StartSmall, observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await start_small(4 * A_RUNG)
    other, tenant = await make(engine, "b"), await make(engine, "a", 200)
    await found(engine, other, "pune")
    assert (observed.oversized, observed.evicted) == (0, 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert len(await found(engine, tenant, "pune")) == 50
    assert in_memory(other) == set() and DANA in in_memory(tenant)
    assert observed.oversized == 1 and "a rung of tenant a" in caplog.text


class Truth:
    """What two tenants must answer, kept in dictionaries beside them.

    ``stands``: tenant -> id -> rung, of what was acked. ``gone``: of what a delete was acked for.
    ``changing``: what is being written or deleted at the moment, of which nothing can be said.
    """

    RUNGS = (DANA, EVE, Rung(("acme", "fay")), ACME)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stands: dict[str, dict[str, Rung]] = {"t": {}, "u": {}}
        self.gone: dict[str, set[str]] = {"t": set(), "u": set()}
        self.changing: dict[str, set[str]] = {"t": set(), "u": set()}

    def visible(self, tenant_id: str, rung: Rung) -> set[str]:
        return {i for i, at in self.stands[tenant_id].items() if at.is_visible_from(rung)}

    async def put(self, tenant_id: str, memory_id: str, rung: Rung) -> None:
        await write(await self.engine.tenant(tenant_id), new(memory_id, "pune tea", rung))
        self.stands[tenant_id][memory_id] = rung

    async def drop(self, tenant_id: str, memory_id: str) -> None:
        tenant = await self.engine.tenant(tenant_id)
        await tenant.delete([memory_id], visible_from=None, request_id=None)
        del self.stands[tenant_id][memory_id]
        self.gone[tenant_id].add(memory_id)

    async def read(self, tenant_id: str, rung: Rung) -> None:
        sure = self.visible(tenant_id, rung) - self.changing[tenant_id]
        gone = set(self.gone[tenant_id])
        seen = set(await found(self.engine, await self.engine.tenant(tenant_id), "pune", rung))
        assert sure <= seen, "what was acked is found"
        assert not seen & gone, "what was deleted is not"
        assert seen <= sure | self.changing[tenant_id], "nor what another rung or tenant has"

    async def check(self) -> None:
        for tenant_id in self.stands:
            tenant = await self.engine.tenant(tenant_id)
            tenant.check_integrity()
            for rung in self.RUNGS:
                seen = set(await found(self.engine, tenant, "pune", rung))
                assert seen == self.visible(tenant_id, rung)
        self.engine.residency.check_integrity()


@pytest.mark.parametrize("seed", range(4))
async def test_under_random_load_nothing_is_lost_and_nothing_comes_back(
    start_small: StartSmall, observed: Observed, seed: int
) -> None:
    """Of two tenants whose rungs have hardly room for one, with a file open for one of them."""
    chance = random.Random(seed)
    residency = {"budget_bytes": chance.choice([1, A_RUNG, 4 * A_RUNG]), "open_files": 1}
    truth = Truth(await start_small(**residency))
    for tenant_id in truth.stands:
        await truth.engine.create_tenant(tenant_id, LADDER)
    made = 0
    for _ in range(12):
        truth.changing = {"t": set(), "u": set()}
        work = [truth.read(chance.choice("tu"), chance.choice(truth.RUNGS)) for _ in range(8)]
        for _ in range(chance.randrange(2, 10)):
            tenant_id = chance.choice("tu")
            standing = sorted(set(truth.stands[tenant_id]) - truth.changing[tenant_id])
            if chance.random() < 0.35 and standing:
                memory_id = chance.choice(standing)
                work.append(truth.drop(tenant_id, memory_id))
            else:
                memory_id, made = f"{tenant_id}-{made}", made + 1
                work.append(truth.put(tenant_id, memory_id, chance.choice(truth.RUNGS)))
            truth.changing[tenant_id].add(memory_id)
        chance.shuffle(work)
        await asyncio.gather(*work)
        if chance.random() < 0.2:
            await truth.engine.close()
            truth.engine = await start_small(**residency)
        await truth.check()
    assert observed.evicted > 12 and observed.loaded > observed.evicted
