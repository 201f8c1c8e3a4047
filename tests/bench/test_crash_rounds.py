"""A few rounds of kill -9 under writes and deletes; and that the ledger would notice each broken promise."""

import random
from pathlib import Path

import pytest

from precall.bench.crash_rounds import BATCH, BrokenPromise, CrashRounds, Ledger, memory_id

ROUNDS = 4


async def test_no_kill_breaks_a_promise(tmp_path: Path) -> None:
    run = CrashRounds(tmp_path, random.Random(4))
    await run.run(ROUNDS)
    assert run.rounds == ROUNDS
    assert len(run.ledger.acked) >= ROUNDS
    assert run.ledger.deleted, "deletes were in it too"


def worked() -> Ledger:
    """Batches 0 and 1 are acked, 2 was sent; the first memory is deleted, the second's deletion in flight."""
    return Ledger(
        sent=3,
        acked={0, 1},
        asked_to_delete={memory_id(0, 0), memory_id(0, 1)},
        deleted={memory_id(0, 0)},
    )


STANDING = [memory_id(0, 2), *(memory_id(1, place) for place in range(BATCH))]
IN_FLIGHT = [memory_id(2, place) for place in range(BATCH)]


@pytest.mark.parametrize("stored", [STANDING, [*STANDING, *IN_FLIGHT], [*STANDING, memory_id(0, 1)]])
def test_what_was_in_flight_may_have_happened_or_not(stored: list[str]) -> None:
    worked().check(stored)


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        (STANDING[1:], "lost"),
        ([*STANDING, memory_id(0, 0)], "came back"),
        ([*STANDING, STANDING[0]], "twice"),
        ([*STANDING, *IN_FLIGHT[1:]], "in part"),
        ([*STANDING, memory_id(7, 0)], "nobody wrote"),
    ],
)
def test_a_broken_promise_is_noticed(stored: list[str], fault: str) -> None:
    with pytest.raises(BrokenPromise, match=fault):
        worked().check(stored)
