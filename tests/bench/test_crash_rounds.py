"""Some rounds of kill -9 under writes, deletes, forgets and damage; and each broken promise is noticed."""

import random
from pathlib import Path

import pytest

from precall.bench.crash_damage import damage
from precall.bench.crash_ledger import BATCH, USERS, BrokenPromise, Ledger, memory_id, names_of, user_of
from precall.bench.crash_rounds import DAMAGE_EVERY, CrashRounds

ROUNDS = DAMAGE_EVERY


async def test_no_kill_breaks_a_promise(tmp_path: Path) -> None:
    run = CrashRounds(tmp_path, random.Random(4))
    await run.run(ROUNDS)
    assert run.rounds == ROUNDS
    assert len(run.ledger.acked) >= ROUNDS
    assert run.ledger.gone, "destructions were in it too"
    assert run.refused + run.unharmed == 1


def worked() -> Ledger:
    """Batches 0 and 1 are acked, 2 was sent; the first memory is deleted, the second's deletion in flight."""
    return Ledger(
        sent=3,
        acked={0, 1},
        doubtful={memory_id(0, 0), memory_id(0, 1)},
        gone={memory_id(0, 0)},
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


def test_a_rung_that_is_forgotten_takes_what_was_acked_and_perhaps_what_was_in_flight() -> None:
    ledger = Ledger(sent=2 * len(USERS), acked={0, 1})
    late = len(USERS) + 1
    with ledger.forgetting(USERS[1]):
        while ledger.next_batch() != late + len(USERS):  # written while the rung is being forgotten
            pass
    assert user_of(late) == USERS[1]
    ledger.check([*names_of(0)])
    ledger.check([*names_of(0), *names_of(late), *names_of(late + len(USERS))])
    with pytest.raises(BrokenPromise, match="came back"):
        ledger.check([*names_of(0), *names_of(1)])


def test_a_destruction_that_is_not_heard_of_leaves_it_in_doubt() -> None:
    ledger = Ledger(sent=1, acked={0})
    with pytest.raises(ConnectionError), ledger.destroying({memory_id(0, 0)}):
        raise ConnectionError("killed")
    ledger.check([*names_of(0)])
    ledger.check([*(names_of(0) - {memory_id(0, 0)})])


def test_damage_is_done_to_one_file_and_undone(tmp_path: Path) -> None:
    intact = {name: name.encode() * 50 for name in ("t.db", "t.db-wal", "t.db-mark")}
    for name, content in intact.items():
        (tmp_path / name).write_bytes(content)
    with damage(tmp_path / "t.db", random.Random(1)) as victim:
        changed = {name for name, content in intact.items() if (tmp_path / name).read_bytes() != content}
        assert changed == {victim}
        (tmp_path / "t.db-shm").write_bytes(b"made meanwhile")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == intact
