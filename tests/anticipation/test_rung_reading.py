"""What is read for a session before it opens: in slices, true at the opening, only what is needed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from precall.engine.anticipation import rung_reading
from precall.engine.anticipation.rung_reading import RungReadings
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stamp import stamp_of
from tests.fakes.clock import LoopClock
from tests.fakes.memories import ACME, DANA
from tests.fakes.world import World

Run = Callable[[Coroutine[Any, Any, Any]], Any]
SETTINGS = AnticipationSettings(complete_below=100, max_items=200)


def world_of(memories: int) -> World:
    world = World(LoopClock(), SETTINGS)
    world.write("t", [world.memory(f"d{n}", DANA, f"pune {n}") for n in range(memories)])
    return world


def test_others_get_their_turns_while_a_rung_is_read(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = world_of(100)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        await world.anticipator.readings(None).prepare(world.lineage("t", DANA))
        beside.cancel()
        assert turns >= 100 // rung_reading._SLICE - 1

    run_on_virtual_clock(scenario())


def test_what_was_prepared_is_not_read_again(
    run_on_virtual_clock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        world = world_of(30)
        partitions = world.lineage("t", DANA)
        readings = world.anticipator.readings(None)
        await readings.prepare(partitions)
        monkeypatch.setattr(type(partitions[0]), "indexed", lambda *_: pytest.fail("read once more"))
        settled = readings.settled(partitions)
        assert [len(each.memories) for each in settled] == [30, 0]
        assert all(each.whole for each in settled)

    run_on_virtual_clock(scenario())


def test_a_write_during_the_reading_is_in_it(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = world_of(60)
        partitions = world.lineage("t", DANA)
        readings = world.anticipator.readings(None)
        preparing = asyncio.create_task(readings.prepare(partitions))
        await asyncio.sleep(0)
        assert not preparing.done()
        world.write("t", [world.memory("late", DANA, "a train")], removed=["d0", "d59"])
        await preparing
        (narrow, _) = readings.settled(partitions)
        assert narrow.memories.keys() == world.current("t").keys()

    run_on_virtual_clock(scenario())


def test_who_is_written_to_without_end_is_read_on_the_spot(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = world_of(60)
        partitions = world.lineage("t", DANA)
        readings = world.anticipator.readings(None)
        preparing = asyncio.create_task(readings.prepare(partitions))
        written = 0
        while not preparing.done():
            written += 1
            world.write("t", [world.memory(f"w{written}", DANA, "a train")])
            await asyncio.sleep(0)
            assert written < 100, "the reading must come to an end"
        (narrow, _) = readings.settled(partitions)
        assert narrow.memories.keys() == world.current("t").keys()

    run_on_virtual_clock(scenario())


def test_another_partition_in_the_place_of_one_that_was_read_is_read_itself(
    run_on_virtual_clock: Run,
) -> None:
    """A rung that left the memory meanwhile, or that another model's vectors are served of by now."""

    async def scenario() -> None:
        world = world_of(5)
        readings = world.anticipator.readings(None)
        await readings.prepare(world.lineage("t", DANA))
        other = world_of(7).lineage("t", DANA)
        assert [len(each.memories) for each in readings.settled(other)] == [7, 0]

    run_on_virtual_clock(scenario())


def test_of_a_large_rung_only_what_the_client_names_is_read(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = World(LoopClock(), SETTINGS)
        world.write("t", [world.memory(f"a{n}", ACME, f"train {n}") for n in range(101)])
        world.write("t", [world.memory("d", DANA, "pune")])
        named = {"a3": 1, "nobody": 2}
        narrow, top = RungReadings(complete_below=100, named=named).settled(world.lineage("t", DANA))
        assert narrow.whole and narrow.memories.keys() == {"d"} and narrow.memories["d"].stamp is None
        assert not top.whole and top.memories.keys() == {"a3"}
        assert top.memories["a3"].stamp == stamp_of(world.current("t")["a3"])

    run_on_virtual_clock(scenario())
