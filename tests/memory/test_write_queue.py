"""What waits together is committed together, in order, and nobody is left waiting."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from precall.engine.memory.group import AskedWrite
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.write_queue import GROUP_MEMORIES, WriteQueue

Prepare = Callable[..., PreparedMemory]


class Disk:
    """Takes the groups it is given, each when the test lets it."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.turn = asyncio.Lock()
        self.queue: WriteQueue[str] = WriteQueue(self.turn, self.commit)
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()

    async def commit(self, writes: Sequence[AskedWrite]) -> Sequence[str | Exception]:
        assert self.turn.locked()
        names = [asked.batch[0].memory.id for asked in writes]
        self.groups.append(names)
        self.begun.set()
        await self.gate.wait()
        if "broken" in names:
            raise RuntimeError("a fault of ours")
        return [ValueError(name) if name.startswith("bad") else name for name in names]


async def test_a_lone_write_waits_for_nobody(prepare: Prepare) -> None:
    disk = Disk()
    disk.gate.set()
    assert await disk.queue.put(AskedWrite([prepare("a")])) == "a"
    assert await disk.queue.put(AskedWrite([prepare("b")])) == "b"
    assert disk.groups == [["a"], ["b"]]


async def test_what_arrives_during_a_commit_shares_the_next_one(prepare: Prepare) -> None:
    disk = Disk()
    first = asyncio.create_task(disk.queue.put(AskedWrite([prepare("a")])))
    await disk.begun.wait()
    names = ["b", "bad", "c"]
    others = [asyncio.create_task(disk.queue.put(AskedWrite([prepare(name)]))) for name in names]
    await asyncio.sleep(0)
    disk.gate.set()
    assert await first == "a"
    results = await asyncio.gather(*others, return_exceptions=True)
    assert disk.groups == [["a"], names]
    assert results[0] == "b" and results[2] == "c"
    assert isinstance(results[1], ValueError)


async def test_it_waits_for_its_turn_and_takes_what_came_meanwhile(prepare: Prepare) -> None:
    disk = Disk()
    disk.gate.set()
    async with disk.turn:  # a delete, say
        writing = [asyncio.create_task(disk.queue.put(AskedWrite([prepare(name)]))) for name in "abc"]
        for _ in range(3):
            await asyncio.sleep(0)
        assert disk.groups == []
    assert await asyncio.gather(*writing) == ["a", "b", "c"]
    assert disk.groups == [["a", "b", "c"]]


async def test_a_group_is_bounded_and_a_larger_write_goes_alone(prepare: Prepare) -> None:
    disk = Disk()
    sizes = {
        "a": 1,
        "half": GROUP_MEMORIES // 2,
        "more": GROUP_MEMORIES // 2,
        "huge": GROUP_MEMORIES + 1,
        "z": 1,
    }
    async with disk.turn:
        writing = [
            asyncio.create_task(disk.queue.put(AskedWrite([prepare(name)] * size)))
            for name, size in sizes.items()
        ]
        await asyncio.sleep(0)
    disk.gate.set()
    await asyncio.gather(*writing)
    assert disk.groups == [["a", "half"], ["more"], ["huge"], ["z"]]


async def test_a_caller_that_goes_away_is_committed_and_the_queue_goes_on(prepare: Prepare) -> None:
    disk = Disk()
    leaving = asyncio.create_task(disk.queue.put(AskedWrite([prepare("a")])))
    await disk.begun.wait()
    waiting = asyncio.create_task(disk.queue.put(AskedWrite([prepare("b")])))
    await asyncio.sleep(0)
    waiting.cancel()
    leaving.cancel()
    disk.gate.set()
    assert await disk.queue.put(AskedWrite([prepare("c")])) == "c"
    assert disk.groups == [["a"], ["b", "c"]]


async def test_a_fault_of_ours_reaches_each_caller_and_stops_nothing(prepare: Prepare) -> None:
    disk = Disk()
    disk.gate.set()
    async with disk.turn:
        writing = [asyncio.create_task(disk.queue.put(AskedWrite([prepare(n)]))) for n in ("a", "broken")]
        await asyncio.sleep(0)
    results = await asyncio.gather(*writing, return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError, RuntimeError]
    with pytest.raises(ValueError, match="bad"):
        await disk.queue.put(AskedWrite([prepare("bad")]))
    assert await disk.queue.put(AskedWrite([prepare("c")])) == "c"
