"""The life of a write: durable, searchable, in the order of versions, and free of stale copies when acked."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from precall.engine.anticipation.events import Push
from precall.engine.encoding.encoder import TokenUsage
from precall.engine.engine import Engine
from precall.engine.errors import (
    AlreadyExists,
    InvalidScope,
    InvalidVector,
    StorageUnavailable,
    TenantQuarantined,
    TextTooLong,
    VersionNotReached,
)
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import Source
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.preparing import GivenVector
from precall.engine.tenant import Tenant
from precall.scoring.terms import analyze
from tests.engine.conftest import StartEngine, found, new, write
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FAKE_CARD, FakeEncoder
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.stream_client import StreamClient


async def test_what_was_written_is_found_from_its_rung_and_below(engine: Engine, tenant: Tenant) -> None:
    outcome = await write(tenant, new("a", "pune train", ACME), new("d", "pune tea"), new("e", "pune", EVE))
    assert outcome.version == tenant.version == 1
    assert set(await found(engine, tenant, "pune", min_version=1)) == {"a", "d"}
    assert set(await found(engine, tenant, "pune", EVE)) == {"a", "e"}
    assert set(await found(engine, tenant, "pune", ACME)) == {"a"}
    assert await found(engine, tenant, "pune", Rung(("globex", "dana"))) == []
    tenant.check_integrity()


async def test_a_version_that_is_not_reached_is_refused(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, new("a", "pune"))
    with pytest.raises(VersionNotReached) as refused:
        await found(engine, tenant, "pune", min_version=2)
    assert refused.value.metadata == {"version": "1"}


async def test_a_later_event_supersedes_and_an_older_one_is_history(engine: Engine, tenant: Tenant) -> None:
    await found(engine, tenant, "warm the partitions")
    await write(tenant, new("aisle", "likes the aisle seat", key="seat", at=10))
    outcome = await write(tenant, new("window", "likes the window seat", key="seat", at=20))
    assert [removed.id for removed in outcome.removed] == ["aisle"]
    assert await found(engine, tenant, "seat") == ["window"]
    await write(tenant, new("late", "likes the exit row seat", key="seat", at=15))
    assert await found(engine, tenant, "seat") == ["window"]
    tenant.check_integrity()


async def test_a_batch_is_stored_whole_or_not_at_all(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, new("taken", "pune"))
    good = new("good", "pune")
    cases: list[tuple[Any, list[Any], type[Exception]]] = [
        (new("taken", "tea"), [None], AlreadyExists),
        (new("long", "word " * 100), [None], TextTooLong),
        (new("deep", "tea", Rung(("a", "b", "c"))), [None], InvalidScope),
        (new("nan", "tea"), [np.full(32, np.nan, np.float32)], InvalidVector),
        (new("zero", "tea"), [np.zeros(32, np.float32)], InvalidVector),
        (new("short", "tea"), [np.ones(31, np.float32)], InvalidVector),
    ]
    for bad, vectors, error in cases:
        given = [each if each is None else GivenVector(each, FAKE_CARD.fingerprint) for each in vectors]
        with pytest.raises(error) as refused:
            await tenant.write([good, bad], [None, *given], request_id=None, truncate=False)
        assert refused.value.metadata["position"] == "1"  # type: ignore[attr-defined]
        assert tenant.version == 1
        assert await found(engine, tenant, "pune tea") == ["taken"]
    tenant.check_integrity()


async def test_a_given_vector_is_normalised_and_a_long_text_is_cut_when_asked(
    engine: Engine, tenant: Tenant
) -> None:
    vector = 40 * await tenant.model().embed_turn("zeppelin")
    outcome = await tenant.write(
        [new("given", "tea"), new("long", "zeppelin " * 100)],
        [GivenVector(vector, tenant.model().fingerprint), None],
        request_id=None,
        truncate=True,
    )
    assert {each.memory.id: each.memory.tokens_used for each in outcome.added} == {"given": 0, "long": 64}
    assert np.linalg.norm(outcome.added[0].vector.astype(np.float32)) == pytest.approx(1.0, abs=1e-3)
    assert set(await found(engine, tenant, "zeppelin")) == {"given", "long"}


async def test_questions_that_a_memory_answers_are_keywords_of_it(engine: Engine, tenant: Tenant) -> None:
    outcome = await write(tenant, new("a", "the answer", questions=("Which zeppelin?",)))
    assert "zeppelin" in outcome.added[0].impacts


async def test_delete_forget_scope_and_forget_source_destroy_everywhere(
    engine: Engine, tenant: Tenant
) -> None:
    source = Source(conversation_id="call-7")
    await write(
        tenant,
        new("d1", "pune"),
        new("d2", "pune", source=source),
        new("derived", "pune", ACME, source=Source(memory_ids=("d2",))),
        new("a1", "pune", ACME),
        new("e1", "pune", EVE),
    )
    outcome = await tenant.delete(["d1", "e1", "unknown"], visible_from=DANA, request_id=None)
    assert [each.id for each in outcome.deleted] == ["d1"]
    assert set(outcome.missing_ids) == {"e1", "unknown"}, "what cannot be seen does not exist"
    await tenant.forget_source(source, visible_from=DANA, request_id=None)
    assert await found(engine, tenant, "pune") == ["a1"]
    await tenant.forget_scope(ACME, request_id=None)
    assert await found(engine, tenant, "pune") == await found(engine, tenant, "pune", EVE) == []
    assert tenant.version == 4
    tenant.check_integrity()
    nothing = await tenant.delete(["d1"], visible_from=None, request_id=None)
    assert nothing.version == tenant.version == 4


async def test_a_retried_write_is_a_no_op_and_needs_no_model(engine: Engine, tenant: Tenant) -> None:
    first = await write(tenant, new("a", "pune"), request_id="r1")
    passes = engine.encoder.forward_passes  # type: ignore[attr-defined]
    again = await write(tenant, new("another-id", "pune", at=5), request_id="r1")
    assert again.replayed and [each.id for each in again.written] == ["a"]
    assert again.version == first.version == tenant.version
    assert engine.encoder.forward_passes == passes  # type: ignore[attr-defined]
    tenant.check_integrity()


async def test_a_retried_delete_spares_what_was_written_under_the_id_since(
    engine: Engine, tenant: Tenant
) -> None:
    await write(tenant, new("a", "pune"))
    assert await found(engine, tenant, "pune") == ["a"]
    first = await tenant.delete(["a"], visible_from=None, request_id="r1")
    await write(tenant, new("a", "pune again"))
    again = await tenant.delete(["a"], visible_from=None, request_id="r1")
    assert again.replayed and again.version == first.version == 2
    assert tenant.version == 3
    assert await found(engine, tenant, "pune") == ["a"]
    tenant.check_integrity()


async def test_simultaneous_tries_of_one_request_happen_once(engine: Engine, tenant: Tenant) -> None:
    outcomes = await asyncio.gather(
        *(write(tenant, new(f"try-{n}", "pune"), request_id="r1") for n in range(5))
    )
    assert sum(not outcome.replayed for outcome in outcomes) == 1
    assert len({outcome.written[0].id for outcome in outcomes}) == 1
    assert len(await found(engine, tenant, "pune")) == tenant.version == 1
    tenant.check_integrity()


async def test_concurrent_writers_keep_versions_in_order(engine: Engine, tenant: Tenant) -> None:
    """Sessions are told of every version once, rising, and their claims are those of the store."""
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    partitions = await tenant.partitions(DANA)
    engine.anticipator.open_session(
        tenant_id="t", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=tenant.ladder,
        model=tenant.model(), partitions=partitions, version=tenant.version,
    )  # fmt: skip

    async def writer(name: int) -> list[int]:
        versions = []
        for number in range(8):
            outcome = await write(
                tenant, new(f"{name}-{number}", f"pune {number}", key=f"k{number}", at=name)
            )
            versions.append(outcome.version)
            if number % 3 == 2:
                deletion = await tenant.delete([f"{name}-{number - 1}"], visible_from=None, request_id=None)
                versions.append(deletion.version)
        return versions

    client = StreamClient("s")
    reading = True

    async def read() -> None:
        while reading:
            client.drain(stream)
            await asyncio.sleep(0.001)

    reader = asyncio.create_task(read())
    lists = await asyncio.gather(*(writer(name) for name in range(6)))
    reading = False
    await reader
    client.drain(stream)
    assert all(sorted(versions) == versions for versions in lists)
    told = [push.version for push in client.pushes]
    assert told == sorted(told) and told[-1] == tenant.version
    assert client.held("user") == {each.memory.id for each in tenant.store.load_rung(DANA)}
    tenant.check_integrity()
    engine.anticipator.check_integrity()


async def test_a_write_during_the_loading_of_its_partition_is_not_lost(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows were read, the partition is not in its place yet, and a write comes."""
    load, read, go_on = tenant.model()._load, threading.Event(), threading.Event()

    def load_slowly(rung: Rung) -> Any:
        partition = load(rung)
        read.set()
        assert go_on.wait(10)
        return partition

    monkeypatch.setattr(tenant.model(), "_load", load_slowly)
    loading = asyncio.create_task(tenant.partitions(DANA))
    assert await asyncio.to_thread(read.wait, 10)
    writing = asyncio.create_task(write(tenant, new("a", "pune")))
    await asyncio.wait([writing], timeout=0.1)
    go_on.set()
    await asyncio.gather(loading, writing)
    assert await found(engine, tenant, "pune") == ["a"]
    tenant.check_integrity()


async def test_a_partition_that_is_loaded_while_others_write_misses_nothing(
    engine: Engine, start_engine: StartEngine
) -> None:
    tenant = await engine.create_tenant("cold", Ladder(("customer", "user")))
    await write(tenant, *(new(f"m{n}", f"pune {n}") for n in range(30)))
    await engine.close()
    engine = await start_engine()
    tenant = await engine.tenant("cold")

    async def writes() -> None:
        for number in range(20):
            await write(tenant, new(f"w{number}", f"pune {number}"), new(f"e{number}", "tea", EVE))
            await tenant.delete([f"m{number}"], visible_from=None, request_id=None)

    async def reads() -> None:
        for rung in (DANA, EVE, ACME, Rung(("acme", "newcomer"))) * 3:
            await found(engine, tenant, "pune", rung)
            await asyncio.sleep(0.005)

    await asyncio.gather(writes(), reads())
    assert set(await found(engine, tenant, "pune")) == {
        *(f"m{n}" for n in range(20, 30)),
        *(f"w{n}" for n in range(20)),
    }
    tenant.check_integrity()


@pytest.mark.parametrize("moment_of_cancelling", ["while it embeds", "while it commits"])
async def test_a_caller_that_hangs_up_splits_nothing(
    moment_of_cancelling: str, engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await found(engine, tenant, "warm the partitions")
    reached, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stop_here() -> None:
        loop.call_soon_threadsafe(reached.set)
        assert go_on.wait(10)

    if moment_of_cancelling == "while it embeds":
        encode = FakeEncoder.encode
        monkeypatch.setattr(FakeEncoder, "encode", lambda self, texts: (stop_here(), encode(self, texts))[1])
    else:
        store_write = tenant.store.write_group

        def slow_write(*arguments: Any, **named: Any) -> Any:
            outcome = store_write(*arguments, **named)
            stop_here()
            return outcome

        monkeypatch.setattr(tenant.store, "write_group", slow_write)
    writing = asyncio.create_task(write(tenant, new("a", "pune")))
    await asyncio.wait_for(reached.wait(), 10)
    writing.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    monkeypatch.undo()
    await write(tenant, new("b", "pune"))  # waits its turn behind what the hung-up caller began
    kept = [] if moment_of_cancelling == "while it embeds" else ["a"]
    assert sorted(await found(engine, tenant, "pune")) == [*kept, "b"]
    tenant.check_integrity()


async def test_a_delete_is_acked_when_the_cache_has_dropped_it(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, new("a", "pune"), new("b", "tea"))
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    engine.anticipator.open_session(
        tenant_id="t", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=tenant.ladder,
        model=tenant.model(), partitions=await tenant.partitions(DANA), version=tenant.version,
    )  # fmt: skip
    client = StreamClient("s")
    client.drain(stream)
    await tenant.note_lease(0.2)
    assert engine.anticipator.renew_lease("t", "one", client.applied) == 0.2
    deleting = asyncio.create_task(tenant.delete(["a"], visible_from=None, request_id="r"))
    event = await stream.next(lambda: engine.anticipator.heartbeat("t"), 10.0)
    assert event is not None and event.confirm
    client.apply(event)
    assert await found(engine, tenant, "pune tea") == ["b"], "searches are ahead of the ack"
    retry = asyncio.create_task(tenant.delete(["a"], visible_from=None, request_id="r"))
    await asyncio.sleep(0.02)
    assert not deleting.done() and not retry.done(), "a retry promises no less than the first call"
    client.drain(stream)
    first, second = await asyncio.gather(deleting, retry)
    assert not first.replayed and second.replayed
    assert set(client.items) == {"b"}
    assert not any(isinstance(e.body, Push) and e.body.items for e in stream._queue)


class TestEarlierProcess:
    """What a client of the process before may still serve is waited out before a delete is acked."""

    @pytest.fixture
    def slept(self, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> list[float]:
        """Sleeps of a lease's order move the clock instead of taking time; the list tells their lengths."""
        asleep: list[float] = []
        sleep = asyncio.sleep

        async def advance(seconds: float, result: Any = None) -> Any:
            if seconds > 1:
                asleep.append(seconds)
                clock.advance(seconds)
                seconds = 0
            return await sleep(seconds, result)

        monkeypatch.setattr(asyncio, "sleep", advance)
        return asleep

    async def let_go(self, engine: Engine) -> None:
        """As after `kill -9`: nothing says goodbye; the files are let go of."""
        for tenant in engine._tenants.values():
            tenant.store.close()
        engine._tenants.clear()
        engine.registry.close()

    async def restarted(self, engine: Engine, start_engine: StartEngine) -> Tenant:
        await self.let_go(engine)
        return await (await start_engine()).tenant("t")

    async def test_a_delete_waits_for_the_leases_of_a_killed_process(
        self, engine: Engine, tenant: Tenant, start_engine: StartEngine, clock: FakeClock, slept: list[float]
    ) -> None:
        await write(tenant, new("a", "pune"), new("b", "tea", key="drink"))
        await tenant.note_lease(10.0)
        clock.advance(3.0)
        again = await self.restarted(engine, start_engine)
        await write(again, new("c", "rent"))
        assert slept == [], "a write that removes nothing need not wait"
        await again.delete(["a"], visible_from=None, request_id="r")
        (waited,) = slept
        assert 7.0 <= waited <= 12.0, "the horizon may be stored ahead by half a lease, not more"
        await again.delete(["a"], visible_from=None, request_id="r")
        await write(again, new("b2", "coffee", key="drink", at=9))
        assert len(slept) == 1, "once it has passed it has passed"

    async def test_a_retry_waits_too_if_its_first_call_was_killed(
        self, engine: Engine, tenant: Tenant, start_engine: StartEngine, slept: list[float]
    ) -> None:
        await write(tenant, new("a", "pune"), request_id="w")
        await tenant.note_lease(10.0)
        tenant.store.delete(["a"], visible_from=None, request_id="r")  # committed, and killed before the ack
        again = await self.restarted(engine, start_engine)
        assert (await write(again, new("x", "pune"), request_id="w")).replayed
        assert slept == []
        outcome = await again.delete(["a"], visible_from=None, request_id="r")
        assert outcome.replayed and len(slept) == 1 and slept[0] >= 10.0

    async def test_a_supersede_waits_as_well(
        self, engine: Engine, tenant: Tenant, start_engine: StartEngine, slept: list[float]
    ) -> None:
        await write(tenant, new("a", "aisle", key="seat"))
        await tenant.note_lease(10.0)
        again = await self.restarted(engine, start_engine)
        await write(again, new("b", "window", key="seat", at=5))
        assert len(slept) == 1

    async def test_after_a_clean_stop_only_leases_that_run_are_waited_for(
        self, engine: Engine, tenant: Tenant, start_engine: StartEngine, slept: list[float]
    ) -> None:
        await write(tenant, new("a", "pune"))
        await tenant.note_lease(10.0)  # whoever it was for has closed the session since
        await engine.close()
        again = await (await start_engine()).tenant("t")
        await again.delete(["a"], visible_from=None, request_id=None)
        assert slept == []

    async def test_the_deletion_of_the_tenant_waits_as_well(
        self, engine: Engine, tenant: Tenant, start_engine: StartEngine, slept: list[float]
    ) -> None:
        await write(tenant, new("a", "pune"))
        await tenant.note_lease(10.0)
        await self.let_go(engine)
        again = await start_engine()
        await again.delete_tenant("t")
        assert len(slept) == 1 and again.tenant_ids() == ()

    async def test_a_lease_is_granted_only_when_its_horizon_is_on_disk(
        self, tenant: Tenant, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two clients renew at once: the second may not overtake the write that the first one waits for."""
        stored: list[float] = []
        release = threading.Event()
        original = tenant._horizon._write

        def slowly(moment: float) -> None:
            assert release.wait(10)
            original(moment)
            stored.append(moment)

        monkeypatch.setattr(tenant._horizon, "_write", slowly)
        renewals = [asyncio.create_task(tenant.note_lease(10.0)) for _ in range(3)]
        done, _ = await asyncio.wait(renewals, timeout=0.05)
        assert not done
        release.set()
        await asyncio.gather(*renewals)
        assert stored == [clock.wall() + 15.0]
        await tenant.note_lease(10.0)
        clock.advance(4.0)
        await tenant.note_lease(10.0)
        assert len(stored) == 1, "one write serves several renewals"
        clock.advance(2.0)
        await tenant.note_lease(10.0)
        assert len(stored) == 2
        assert tenant.store.lease_horizon == stored[-1]

    async def test_a_delete_that_finds_nothing_waits_as_well(
        self, engine: Engine, tenant: Tenant, start_engine: StartEngine, slept: list[float]
    ) -> None:
        """A process that was killed before its ack destroyed it: clients of then may still serve it."""
        await write(tenant, new("a", "pune"))
        await tenant.note_lease(10.0)
        tenant.store.delete(["a"], visible_from=None)
        again = await self.restarted(engine, start_engine)
        outcome = await again.delete(["a"], visible_from=None, request_id=None)
        assert outcome.missing_ids == ("a",) and len(slept) == 1


@pytest.mark.parametrize("how", ["delete", "partly", "forget_scope", "forget_source", "history"])
async def test_a_destruction_that_comes_too_late_promises_no_less(
    how: str, engine: Engine, tenant: Tenant
) -> None:
    """An earlier call took what it was to destroy; until that one is acked some cache may still hold it."""
    source = Source(uri="note")
    await write(tenant, new("a", "pune", source=source, key="k"), new("b", "tea"))
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    engine.anticipator.open_session(
        tenant_id="t", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=tenant.ladder,
        model=tenant.model(), partitions=await tenant.partitions(DANA), version=tenant.version,
    )  # fmt: skip
    client = StreamClient("s")
    client.drain(stream)
    await tenant.note_lease(0.2)
    assert engine.anticipator.renew_lease("t", "one", client.applied) == 0.2
    if how == "history":
        first: asyncio.Task[Any] = asyncio.create_task(write(tenant, new("c", "train", key="k", at=9)))
    else:
        first = asyncio.create_task(tenant.delete(["a"], visible_from=None, request_id=None))
    event = await stream.next(lambda: engine.anticipator.heartbeat("t"), 10.0)
    assert event is not None and event.confirm
    late = asyncio.create_task(
        {
            "delete": lambda: tenant.delete(["a"], visible_from=None, request_id=None),
            "partly": lambda: tenant.delete(["a", "b"], visible_from=None, request_id=None),
            "forget_scope": lambda: tenant.forget_scope(DANA, request_id=None),
            "forget_source": lambda: tenant.forget_source(source, visible_from=DANA, request_id=None),
            "history": lambda: tenant.delete(["a"], visible_from=None, request_id=None),
        }[how]()
    )
    done, _ = await asyncio.wait([late, first], timeout=0.05)
    assert not done
    client.apply(event)
    client.drain(stream)
    engine.anticipator.acknowledge("t", "one", client.applied)
    while not (first.done() and late.done()):
        client.drain(stream)
        engine.anticipator.acknowledge("t", "one", client.applied)
        await asyncio.sleep(0.001)
    assert "a" not in client.items


async def test_a_stored_vector_that_cannot_be_indexed_is_damage_and_no_fault_of_the_reader(
    engine: Engine, start_engine: StartEngine
) -> None:
    tenant = await engine.create_tenant("t", Ladder(("customer", "user")))
    good = await tenant.model().embed_turn("zeppelin")
    memory = PreparedMemory(new("a", "pune"), (3 * good).astype(np.float16), (), TokenUsage(1, 1))
    tenant.store.write([memory])  # past `Tenant.write`, which normalises
    with pytest.raises(TenantQuarantined, match="'t'"):
        await found(engine, tenant, "pune")


async def test_a_batch_of_more_than_a_few_words_is_analysed_beside_the_event_loop(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noting(text: str) -> Any:
        threads.append(threading.current_thread().name)
        return analyze(text)

    monkeypatch.setattr("precall.engine.memory.prepared.analyze", noting)
    await tenant.write(
        [new("a", "pune " * 500), new("b", "tea")], [None, None], request_id=None, truncate=True
    )
    assert len(threads) == 2 and threading.main_thread().name not in threads


async def test_a_full_disk_keeps_no_tenant_open_or_undeleted(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tenant, new("a", "pune"))
    await tenant.note_lease(10.0)

    def refuse(_: float) -> None:
        raise StorageUnavailable("the disk is full")

    monkeypatch.setattr(tenant._horizon, "_write", refuse)
    await engine.delete_tenant("t")
    assert tenant.store.closed and engine.tenant_ids() == ()
