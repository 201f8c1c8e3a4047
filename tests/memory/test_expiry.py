"""What has expired is as good as destroyed for every reader, and destroyed in bounded steps."""

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import Source
from precall.engine.memory.outcomes import RemovedMemory
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

ACME, DANA = Rung(("acme",)), Rung(("acme", "dana"))
START = 1_700_000_000
Prepare = Callable[..., PreparedMemory]


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


@pytest.fixture
def seconds() -> list[float]:
    """The store's clock: the seconds after `START`."""
    return [0.0]


@pytest.fixture
def timed(store: TenantStore, tmp_path: Path, seconds: list[float]) -> Iterator[TenantStore]:
    store.close()
    made = TenantStore.open(tmp_path / "acme.db", clock=lambda: START + seconds[0])
    yield made
    made.close()


def test_no_reader_is_shown_it_from_that_moment_on(
    timed: TenantStore, prepare: Prepare, seconds: list[float]
) -> None:
    timed.write([prepare("old", key="k", at=-1, expires_at=moment(10)), prepare("stays")])
    timed.write([prepare("new", key="k", expires_at=moment(20))])

    def shown() -> tuple[list[str], list[str], list[str], list[str]]:
        whole = timed.list_rung(DANA, limit=9, include_history=True).memories
        then = timed.list_rung(DANA, limit=9, include_history=True, as_of=moment(5)).memories
        return (
            [memory.id for memory in timed.get(["old", "new"], visible_from=DANA).memories],
            [memory.id for memory in timed.history(DANA, "k").memories],
            [memory.id for memory in whole],
            [memory.id for memory in then],
        )

    assert shown() == (["old", "new"], ["new", "old"], ["old", "stays", "new"], ["old", "stays", "new"])
    seconds[0] = 10
    assert shown() == (["new"], ["new"], ["stays", "new"], ["stays", "new"])
    seconds[0] = 20
    assert shown() == ([], [], ["stays"], ["stays"])
    assert [item.memory.id for item in timed.load_rung_as_of(DANA, moment(5))] == ["stays"]
    assert set(timed.memory_by_ids(["new"])) == {"new"}, "whoever asks nobody's leave is told"


def test_it_is_destroyed_as_a_delete_does(
    timed: TenantStore, tmp_path: Path, prepare: Prepare, seconds: list[float]
) -> None:
    timed.write([prepare("old", key="k", at=-1), prepare("stays")])
    timed.write([prepare("new", key="k", text="a password " * 300, expires_at=moment(10))])
    timed.write([prepare("summary", ACME, source=Source(memory_ids=("new",)))])
    assert not timed.expiry_is_due
    assert timed.destroy_expired(limit=9).version == 3, "nothing was due"
    seconds[0] = 10
    assert timed.expiry_is_due
    outcome = timed.destroy_expired(limit=9)
    assert {deleted.id for deleted in outcome.deleted} == {"old", "new", "summary"}
    assert set(outcome.removed) == {RemovedMemory("new", DANA), RemovedMemory("summary", ACME)}
    assert (outcome.version, timed.expiry_is_due) == (4, False)
    timed.check_integrity()
    assert not timed.erasure_is_pending
    files = [path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("acme.db")]
    assert not any(b"password" in content for content in files)


def test_what_expires_goes_in_bounded_steps_the_longest_expired_first(
    timed: TenantStore, prepare: Prepare, seconds: list[float]
) -> None:
    timed.write([prepare(f"m{n}", expires_at=moment(9 - n)) for n in range(5)])
    seconds[0] = 8
    assert [deleted.id for deleted in timed.destroy_expired(limit=2).deleted] == ["m3", "m4"]
    assert timed.expiry_is_due
    assert [deleted.id for deleted in timed.destroy_expired(limit=2).deleted] == ["m1", "m2"]
    assert not timed.expiry_is_due
    seconds[0] = 9
    assert timed.expiry_is_due


def test_a_reopened_store_knows_what_will_expire(
    timed: TenantStore, tmp_path: Path, prepare: Prepare, seconds: list[float]
) -> None:
    timed.write([prepare("m", expires_at=moment(10))])
    reopened = TenantStore.open(tmp_path / "acme.db", clock=lambda: START + seconds[0])
    assert not reopened.expiry_is_due
    seconds[0] = 11
    assert reopened.expiry_is_due
    reopened.close()


def test_finding_it_reads_an_index_alone(timed: TenantStore, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "acme.db")
    for query in (
        "SELECT min(expires_at) FROM memories WHERE expires_at IS NOT NULL",
        "SELECT number FROM memories WHERE expires_at <= 1 ORDER BY expires_at LIMIT 2",
    ):
        plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}"))
        assert "memories_by_expiry" in plan and "USE TEMP B-TREE" not in plan, plan
    connection.close()
