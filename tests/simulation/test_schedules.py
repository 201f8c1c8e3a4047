"""Real clients, a real anticipator, and all that may happen: no promise breaks, and each fault is found."""

import asyncio
import os
from typing import Final

import pytest

from tests.simulation.faults import FAULTS, planted
from tests.simulation.running import first_failure, run
from tests.simulation.virtual_loop import VirtualLoop

SCHEDULES: Final = int(os.environ.get("PRECALL_SCHEDULES", "40"))
"""`make simulate` runs more of them, on all cores."""
FAULT_SCHEDULES: Final = 300
"""At most: most faults take fewer than ten."""


def test_no_schedule_breaks_a_promise() -> None:
    failure = first_failure(range(SCHEDULES))
    assert failure is None, f"{failure}: replay it with python -P -m tests.simulation --seed {failure.seed}"


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    with planted(name):
        assert first_failure(range(FAULT_SCHEDULES)) is not None


def test_a_seed_is_one_schedule() -> None:
    assert [run(seed) for seed in (3, 4)] == [run(seed) for seed in (3, 4)]


def test_what_waits_for_nothing_is_a_deadlock_and_not_a_long_wait() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        waiting = asyncio.Event().wait()
        with pytest.raises(RuntimeError, match="deadlock"):
            runner.run(waiting)


def test_nothing_runs_in_a_thread() -> None:
    with (
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
        pytest.raises(RuntimeError, match="thread"),
    ):
        runner.run(asyncio.to_thread(int))
