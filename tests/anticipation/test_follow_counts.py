"""What is known of memories that follow one another: it fades, it is bounded, and it can be forgotten."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from precall.engine.anticipation.follow_counts import FollowCounts, best
from precall.engine.memory.ladder import Rung
from tests.fakes.memories import ACME, DANA

DAY = 86_400.0


def counts(memories: int = 10, followers: int = 3) -> FollowCounts:
    return FollowCounts(memories_kept=memories, followers_kept=followers, half_life_seconds=30 * DAY)


def test_a_follower_is_expected_as_often_as_it_followed() -> None:
    known = counts()
    for time in range(9):
        known.used((DANA, "a"), now=time)
        if time % 3 == 0:
            known.followed((DANA, "a"), "b", now=time)
    assert known.expected([(DANA, "a")], now=9) == {"b": pytest.approx(3 / 10, rel=1e-4)}
    assert not known.expected([(ACME, "a"), (DANA, "b")], now=9)


def test_one_use_says_little() -> None:
    known = counts()
    known.used((DANA, "a"), now=0)
    known.followed((DANA, "a"), "b", now=0)
    assert known.expected([(DANA, "a")], now=0) == {"b": 0.5}


def test_what_several_lead_to_is_added_up() -> None:
    known = counts()
    for earlier in ("a", "c"):
        known.used((DANA, earlier), now=0)
        known.followed((DANA, earlier), "b", now=0)
    assert known.expected([(DANA, "a"), (DANA, "c")], now=0) == {"b": 1.0}


def test_counts_halve_and_the_habit_of_today_wins() -> None:
    known = counts()
    for _ in range(4):
        known.used((DANA, "a"), now=0)
        known.followed((DANA, "a"), "old", now=0)
    later = 90 * DAY  # three half-lives: four uses count as half a one
    known.used((DANA, "a"), now=later)
    known.followed((DANA, "a"), "new", now=later)
    expected = known.expected([(DANA, "a")], now=later)
    assert expected == {"old": pytest.approx(0.5 / 2.5), "new": pytest.approx(1 / 2.5)}
    assert best(expected, above=0.3, limit=9) == ["new"]
    assert best(expected, above=0.1, limit=9) == ["new", "old"]
    assert best(expected, above=0.1, limit=1) == ["new"]


def test_the_rarest_follower_and_the_longest_unused_memory_go() -> None:
    known = counts(memories=2, followers=2)
    for follower, times in (("b", 3), ("c", 1), ("d", 2)):
        for _ in range(times):
            known.followed((DANA, "a"), follower, now=0)
    assert set(known.expected([(DANA, "a")], now=0)) == {"b", "d"} and "c" not in known
    known.used((DANA, "x"), now=1)
    known.used((DANA, "a"), now=2)
    known.used((DANA, "y"), now=3)
    assert "x" not in known and "a" in known and "y" in known and len(known) == 2


class Machine(RuleBasedStateMachine):
    """Whatever was counted, nothing stays of an id that was forgotten since it was last named."""

    def __init__(self) -> None:
        super().__init__()
        self.known = FollowCounts(memories_kept=6, followers_kept=3, half_life_seconds=10.0)
        self.gone: set[str] = set()
        self.now = 0.0

    ids = st.sampled_from([f"m{n}" for n in range(8)])
    rungs = st.sampled_from([ACME, DANA])

    @rule(rung=rungs, memory_id=ids, pause=st.floats(0, 30))
    def use(self, rung: Rung, memory_id: str, pause: float) -> None:
        self.now += pause
        self.known.used((rung, memory_id), now=self.now)
        self.gone.discard(memory_id)

    @rule(rung=rungs, earlier=ids, later=ids)
    def follow(self, rung: Rung, earlier: str, later: str) -> None:
        if earlier != later:
            self.known.followed((rung, earlier), later, now=self.now)
            self.gone -= {earlier, later}

    @rule(gone=st.sets(ids, max_size=3))
    def forget(self, gone: set[str]) -> None:
        self.known.forget(gone)
        self.gone |= gone

    @rule()
    def shed(self) -> None:
        self.known.shed(1)

    @invariant()
    def nothing_stays(self) -> None:
        self.known.check_integrity()
        places = [(rung, f"m{n}") for rung in (ACME, DANA) for n in range(8)]
        expected = self.known.expected(places, now=self.now)
        assert not self.gone & expected.keys()
        assert not any(memory_id in self.known for memory_id in self.gone)
        assert all(chance >= 0 for chance in expected.values())


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
