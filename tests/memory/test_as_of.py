"""A rung as it stood: what had been stored by then and was current then, less what was destroyed since."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MemoryState
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

DANA = Rung(("acme", "dana"))
START = 1_700_000_000
Prepare = Callable[..., PreparedMemory]


class TimedStore:
    """A store on a clock of the test's; moments are seconds after `START`."""

    def __init__(self, path: Path) -> None:
        self.seconds = 0.0
        self.store = TenantStore.open(path, clock=lambda: START + self.seconds)

    def write(self, at: float, *batch: PreparedMemory) -> None:
        self.seconds = at
        self.store.write(batch)

    def current_at(self, seconds: float) -> list[str]:
        return [item.memory.id for item in self.store.load_rung_as_of(DANA, moment(seconds))]


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


@pytest.fixture
def timed(store: TenantStore, tmp_path: Path) -> Iterator[TimedStore]:
    store.close()
    made = TimedStore(tmp_path / "acme.db")
    yield made
    made.store.close()


def test_what_was_superseded_since_is_given_as_it_stood(timed: TimedStore, prepare: Prepare) -> None:
    timed.write(10, prepare("pune", key="home", at=1))
    timed.write(20, prepare("goa", key="home", at=2))
    assert timed.current_at(9.999999) == []
    assert timed.current_at(10) == timed.current_at(19.999999) == ["pune"], "the moment itself counts"
    assert timed.current_at(20) == timed.current_at(1e6) == ["goa"]
    [then] = timed.store.load_rung_as_of(DANA, moment(15))
    assert (then.memory.state, then.memory.superseded_version, then.memory.superseded_at) == (
        MemoryState.CURRENT, 0, None,
    )  # fmt: skip
    [now] = timed.store.get(["pune"], visible_from=DANA).memories
    assert (now.state, now.superseded_version, now.superseded_at) == (MemoryState.SUPERSEDED, 2, moment(20))
    [listed] = timed.store.list_rung(DANA, limit=9, as_of=moment(15), include_history=True).memories
    assert listed == then.memory


def test_a_late_older_statement_was_never_current(timed: TimedStore, prepare: Prepare) -> None:
    timed.write(10, prepare("goa", key="home", at=2))
    timed.write(20, prepare("pune", key="home", at=1))
    assert timed.current_at(20) == timed.current_at(30) == ["goa"]
    history = timed.store.list_rung(DANA, limit=9, as_of=moment(20), include_history=True).memories
    assert [memory.id for memory in history] == ["goa", "pune"]


def test_what_was_destroyed_never_comes_back(timed: TimedStore, prepare: Prepare) -> None:
    timed.write(10, prepare("pune", key="home", at=1), prepare("note"))
    timed.write(20, prepare("goa", key="home", at=2))
    timed.seconds = 30
    timed.store.delete(["goa"], visible_from=None)
    assert timed.current_at(15) == timed.current_at(25) == ["note"]


def test_a_clock_that_is_set_back_makes_no_two_statements_current_at_once(
    timed: TimedStore, prepare: Prepare
) -> None:
    for number, at in enumerate((50, 80, 30, 90)):
        timed.write(at, prepare(f"m{number}", key="home", at=number))
    timed.store.check_integrity()
    assert [timed.current_at(at) for at in (40, 50, 79, 80, 89, 90)] == [
        [], ["m0"], ["m0"], ["m2"], ["m2"], ["m3"],
    ]  # fmt: skip


def test_pages_of_a_moment_are_exact_under_a_filter(timed: TimedStore, prepare: Prepare) -> None:
    for number in range(10):
        timed.write(number, prepare(f"m{number}", key=f"k{number % 5}", at=number))
    even = []
    token = ""
    for expected in (2, 2, 1):
        page = timed.store.list_rung(
            DANA,
            limit=2,
            after_token=token,
            as_of=moment(4),
            matching=lambda memory: memory.state is MemoryState.CURRENT,
        )
        assert len(page.memories) == expected
        even += [memory.id for memory in page.memories]
        token = page.next_token
    assert (even, token) == (["m0", "m1", "m2", "m3", "m4"], "")
