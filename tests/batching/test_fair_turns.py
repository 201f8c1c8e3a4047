"""Turns at few places: fair between members, and none is lost with a caller who goes."""

import asyncio
import random

import pytest

from precall.engine.batching.fair_turns import FairTurns


async def _wait_until_all_stand_in_line() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_whoever_has_had_least_goes_next() -> None:
    turns = FairTurns(1)
    order: list[str] = []
    gate = asyncio.Event()

    async def work(member: str, amount: float) -> None:
        async with turns.turn(member, amount):
            order.append(member)
            await gate.wait()

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work("many", 10.0))
        await _wait_until_all_stand_in_line()
        for _ in range(2):
            group.create_task(work("few", 10.0))
        await _wait_until_all_stand_in_line()
        turns.check_integrity()
        gate.set()
    assert order == ["many", "many", "few", "many", "few", "many"]


async def test_no_more_hold_a_place_than_there_are() -> None:
    turns = FairTurns(2)
    held = most = 0

    async def work(number: int) -> None:
        nonlocal held, most
        async with turns.turn(str(number % 3), 1.0):
            held += 1
            most = max(most, held)
            await asyncio.sleep(0)
            held -= 1

    async with asyncio.timeout(10):
        await asyncio.gather(*(work(number) for number in range(50)))
    assert (held, most) == (0, 2)


@pytest.mark.parametrize("seed", range(20))
async def test_whoever_goes_leaves_the_place_to_the_next(seed: int) -> None:
    """Cancelled in line, on the way to its place, or at it."""
    chance = random.Random(seed)
    turns = FairTurns(2)

    async def work() -> None:
        async with turns.turn(chance.choice("abc"), chance.uniform(0.0, 5.0)):
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(work()) for _ in range(40)]
    for task in chance.sample(tasks, 30):
        if chance.random() < 0.6:
            await asyncio.sleep(0)
        task.cancel()
        turns.check_integrity()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(work() for _ in range(4)))
    turns.check_integrity()
    assert turns._free == 2


async def test_whoever_goes_from_a_line_leaves_nothing_in_it() -> None:
    turns = FairTurns(1)
    async with turns.turn("holds", 1.0):

        async def work() -> None:
            async with turns.turn("goes", 1.0):
                raise AssertionError("there is no place")

        task = asyncio.create_task(work())
        await _wait_until_all_stand_in_line()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert turns._lines == {}
        turns.check_integrity()
