"""Rungs of the past in memory: how many at once, for how long, and what becomes of an abandoned read."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import cast
from weakref import WeakSet

import pytest

from precall.engine.errors import ConfigurationError, Overloaded
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.migration import StoredModel
from precall.engine.memory.store import TenantStore
from precall.engine.retrieval.past import Past, PastSettings
from tests.fakes.memories import ACME, DANA, NOW, clustered, indexed, moment

VECTORS = clustered(40, 8, seed=1)
THEN = moment(NOW)
MODEL = StoredModel("fingerprint", 8)


class GatedStore:
    """As much of a store as is read here. A read waits at ``gate`` before its second memory."""

    tenant_id = "t"

    def __init__(self, memories: int = 2) -> None:
        self.memories = memories
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.closed = threading.Semaphore(0)
        self.reads: list[Rung] = []
        self.given = 0
        self.expiry_is_due = False

    def load_rung_as_of(self, rung: Rung, at: datetime, fingerprint: str) -> Iterator[IndexedMemory]:
        assert fingerprint == MODEL.fingerprint
        self.reads.append(rung)
        try:
            for number in range(self.memories):
                if number == 1:
                    self.entered.release()
                    assert self.gate.wait(10)
                self.given += 1
                yield indexed(f"{rung.depth}-{number}", rung, vector=VECTORS[number])
        finally:
            self.closed.release()


async def ask(
    past: Past, store: GatedStore, *, rung: Rung = ACME, at: datetime = THEN, version: int = 1
) -> Sequence[Partition]:
    async with past.lineage(cast(TenantStore, store), MODEL, rung, at, version=version) as partitions:
        return partitions


async def in_hand(store: GatedStore, times: int = 1) -> None:
    """Return when so many reads stand at the gate."""
    for _ in range(times):
        assert await asyncio.to_thread(store.entered.acquire, timeout=10)


async def test_a_lineage_comes_narrowest_first_and_is_searched_exactly() -> None:
    store = GatedStore(memories=30)
    partitions = await ask(Past(), store, rung=DANA)
    assert [partition.rung for partition in partitions] == list(DANA.lineage())
    assert [len(partition) for partition in partitions] == [30, 30]
    assert not any(partition.quantized for partition in partitions)


async def test_no_more_are_read_at_once_and_no_more_wait_than_allowed() -> None:
    store = GatedStore()
    store.gate.clear()
    past = Past(PastSettings(at_once=2, waiting=1))
    asking = [asyncio.create_task(ask(past, store, version=version)) for version in range(3)]
    await in_hand(store, 2)
    with pytest.raises(Overloaded):
        await ask(past, store, version=4)
    assert len(store.reads) == 2
    store.gate.set()
    await asyncio.gather(*asking)
    assert len(store.reads) == 3
    await ask(past, store, version=5)  # there is room again


async def test_a_repeated_search_reads_nothing_until_something_is_written_or_expires() -> None:
    store, past = GatedStore(), Past()
    first = await ask(past, store)
    assert await ask(past, store) is first and len(store.reads) == 1
    await ask(past, store, version=2)
    await ask(past, store, at=moment(NOW - 1))
    assert len(store.reads) == 3
    store.expiry_is_due = True
    assert await ask(past, store) is not first
    assert await ask(past, GatedStore()) is not first, "another store of the same name"


async def test_what_is_kept_is_small_and_few() -> None:
    store, past = GatedStore(), Past(PastSettings(kept=2, kept_memories=2))
    for version in (1, 2, 1, 3, 1):  # 2 has not been asked for longest when 3 comes
        await ask(past, store, version=version)
    assert len(store.reads) == 3
    await ask(past, store, version=2)
    assert len(store.reads) == 4
    store.memories = 3
    for _ in range(2):
        await ask(past, store, version=9)
    assert len(store.reads) == 6


async def test_what_is_kept_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine takes: the timer is fired by the test."""
    timers: list[Callable[[], None]] = []

    loop = asyncio.get_running_loop()

    def noted(delay: float, callback: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        assert delay == 12.5
        timers.append(lambda: callback(*arguments))
        return asyncio.TimerHandle(loop.time() + delay, callback, arguments, loop)

    store, past = GatedStore(), Past(PastSettings(kept_seconds=12.5))
    monkeypatch.setattr(loop, "call_later", noted, raising=False)
    await ask(past, store)
    await ask(past, store)
    assert len(timers) == 1
    timers[0]()
    monkeypatch.undo()
    await ask(past, store)
    assert len(store.reads) == 2


async def test_a_read_that_nobody_waits_for_goes_no_further_and_gives_its_place_back() -> None:
    store = GatedStore(memories=30)
    store.gate.clear()
    past = Past(PastSettings(at_once=1, waiting=0))
    asking = asyncio.create_task(ask(past, store, rung=DANA))
    await in_hand(store)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    store.gate.set()
    other = GatedStore()
    assert [len(each) for each in await ask(past, other)] == [2]
    for _ in DANA.lineage():
        assert await asyncio.to_thread(store.closed.acquire, timeout=10)
    assert store.given <= 3, "one of each rung and the one in hand"


@pytest.mark.parametrize("wrong", [{"at_once": 0}, {"waiting": -1}, {"kept": -1}, {"kept_seconds": -1.0}])
def test_a_setting_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        PastSettings(**wrong)  # type: ignore[arg-type]


async def test_what_gave_way_is_let_go_of_at_once() -> None:
    """Searches of many moments must not hold each of them until its time is over."""
    store, past, held = GatedStore(), Past(PastSettings(kept=2)), WeakSet[Partition]()
    for second in range(10):
        held.update(await ask(past, store, rung=DANA, at=moment(second)))
    gc.collect()
    assert len(held) == 2 * len(DANA.lineage())
