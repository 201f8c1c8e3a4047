"""The books of one cache: within the budget, no claim without its items, the least worth goes first."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from precall.engine.anticipation.fate import Fate
from precall.engine.anticipation.held import Difference, HeldSet, Reason
from precall.engine.anticipation.item_size import size_of
from precall.engine.memory.memory import IndexedMemory, Source
from tests.fakes.memories import indexed

VECTOR = np.eye(8)[0]
POOL = [indexed(f"m{n}", vector=VECTOR, text="x" * (1 + 40 * (n % 5))) for n in range(40)]


def held(items: int = 10, *, coverages: int = 3, megabytes: int = 1) -> HeldSet:
    return HeldSet(max_items=items, max_bytes=megabytes * 2**20, coverages_kept=coverages)


def names(memories: list[IndexedMemory]) -> list[str]:
    return [each.memory.id for each in memories]


def propose(
    cache: HeldSet,
    number: int,
    batch: list[IndexedMemory],
    *,
    predictor: str = "turns",
    worth: float = 1.0,
    claims: bool = True,
    cause: int | None = None,
) -> Difference:
    """What a predictor proposes, as a session offers it: with the content of what is not held."""
    new = [each for each in batch if each.memory.id not in cache]
    reason = Reason(number, predictor, names(batch), worth, claims, number if cause is None else cause)
    difference = cache.add(reason, new)
    cache.check_integrity()
    return difference


def test_an_answer_is_held_and_covered() -> None:
    cache = held()
    difference = propose(cache, 1, POOL[:4])
    assert names(list(difference.added)) == ["m0", "m1", "m2", "m3"]
    assert not difference.evicted_ids and not difference.retired_coverage_ids
    assert cache.covers(1) and not cache.covers(2)
    assert names(list(propose(cache, 2, POOL[2:6]).added)) == ["m4", "m5"]


def test_the_oldest_answer_makes_room_from_its_end_and_loses_its_claim() -> None:
    cache = held(items=6)
    propose(cache, 1, POOL[:4])
    difference = propose(cache, 2, POOL[3:8])
    assert list(difference.retired_coverage_ids) == [1]
    assert list(difference.evicted_ids) == ["m2", "m1"], "the best of it stays, and what both want"
    assert cache.covers(2) and not cache.covers(1) and len(cache) == 6


def test_what_is_left_of_an_answer_without_its_claim_is_worth_half() -> None:
    cache = held(items=6)
    propose(cache, 1, POOL[:4], cause=1)
    assert list(propose(cache, 2, POOL[4:7], cause=1).evicted_ids) == ["m3"]
    assert list(propose(cache, 3, POOL[7:9], worth=0.9, claims=False, cause=1).evicted_ids) == ["m2", "m1"]
    assert not propose(cache, 4, POOL[9:11], worth=0.4, claims=False, cause=1), "0.5 is worth more"
    assert cache.covers(2)


def test_more_claims_than_are_kept_cost_the_oldest_its_claim_and_no_item() -> None:
    cache = held(coverages=2)
    for number in (1, 2, 3):
        difference = propose(cache, number, POOL[number : number + 2])
    assert list(difference.retired_coverage_ids) == [1] and not difference.evicted_ids
    assert not cache.covers(1) and cache.covers(2) and cache.covers(3)


def test_more_reasons_than_are_kept_cost_no_item_while_there_is_room() -> None:
    cache = held(coverages=2)
    for number in range(1, 10):
        assert not propose(cache, number, POOL[number : number + 1], claims=False).evicted_ids
    assert len(cache._reasons) == 2
    evicted = [propose(cache, n, POOL[n : n + 1], claims=False).evicted_ids for n in range(10, 16)]
    assert [list(each) for each in evicted] == [[], ["m1"], ["m2"], ["m3"], ["m4"], ["m5"]], (
        "the oldest first"
    )


def test_an_item_with_another_reason_stays() -> None:
    cache = held(items=6)
    cache.add_lasting(POOL[:1], "whole_rung")
    propose(cache, 1, POOL[:3])
    propose(cache, 2, POOL[2:4])
    difference = propose(cache, 3, POOL[4:8])
    assert set(difference.retired_coverage_ids) == {1, 2}
    assert sorted(difference.evicted_ids) == ["m1", "m3"]


def test_the_least_worth_goes_first_whatever_its_age() -> None:
    cache = held(items=6)
    propose(cache, 1, POOL[:2], predictor="start", worth=0.4, claims=False, cause=1)
    propose(cache, 2, POOL[2:4], predictor="neighbours", worth=0.3, claims=False, cause=1)
    propose(cache, 3, POOL[4:6], cause=1)
    assert list(propose(cache, 4, POOL[6:7], predictor="questions", worth=0.6, cause=1).evicted_ids) == ["m3"]
    twice = propose(cache, 5, POOL[7:9], predictor="questions", worth=0.6, cause=1)
    assert list(twice.evicted_ids) == ["m2", "m1"]
    assert cache.covers(3) and cache.covers(5)


def test_what_is_worth_less_than_all_that_is_held_finds_no_room() -> None:
    cache = held(items=4)
    propose(cache, 1, POOL[:3], cause=1)
    difference = propose(cache, 2, POOL[3:6], predictor="start", worth=0.2, claims=False, cause=1)
    assert names(list(difference.added)) == ["m3"], "the best first"
    assert not difference.evicted_ids and cache.covers(1)
    assert not propose(cache, 3, POOL[6:9], predictor="other", worth=0.1, claims=False, cause=1)
    assert not cache.covers(3)


def test_each_later_observation_halves_what_was_expected_before() -> None:
    cache = held(items=6)
    propose(cache, 1, POOL[:2], predictor="start", worth=0.9, claims=False, cause=1)
    propose(cache, 2, POOL[2:4], cause=2)
    propose(cache, 3, POOL[4:6], worth=0.5, claims=False, cause=2)
    assert list(propose(cache, 4, POOL[6:7], worth=0.48, predictor="x", cause=2).evicted_ids) == ["m1"]
    assert not propose(cache, 5, POOL[7:8], worth=0.4, predictor="x", cause=2), "0.45 is worth more"
    assert list(propose(cache, 6, POOL[8:9], worth=0.24, predictor="x", cause=3).evicted_ids) == ["m0"]
    assert cache.covers(2)


def test_an_answer_that_does_not_fit_is_cut_and_claims_nothing() -> None:
    cache = held(items=5)
    cache.add_lasting(POOL[:3], "whole_rung")
    difference = propose(cache, 1, POOL[5:9])
    assert names(list(difference.added)) == ["m5", "m6"], "the best first"
    assert not cache.covers(1)


def test_a_write_takes_the_room_of_what_was_proposed() -> None:
    cache = held(items=5)
    propose(cache, 1, POOL[:4])
    assert cache.fits(POOL[4:9]) and not cache.fits(POOL[4:10])
    difference = cache.add_lasting(POOL[3:6], "written")
    cache.check_integrity()
    assert names(list(difference.added)) == ["m4", "m5"]
    assert list(difference.evicted_ids) == ["m2"] and list(difference.retired_coverage_ids) == [1]
    assert cache.fits(POOL[6:8]) and not cache.fits(POOL[6:9]), "three of five last"


def test_the_budget_counts_bytes_too() -> None:
    room = sum(size_of(each) for each in POOL[:3])
    cache = HeldSet(max_items=99, max_bytes=room, coverages_kept=3)
    assert cache.fits(POOL[:3]) and not cache.fits(POOL[:4])
    propose(cache, 1, POOL[:3])
    assert cache.bytes == room
    assert list(propose(cache, 2, POOL[3:4]).evicted_ids) == ["m2", "m1"]
    assert cache.bytes <= room


def test_an_invalidated_item_is_forgotten_and_claims_stay() -> None:
    cache = held()
    propose(cache, 1, POOL[:3])
    assert cache.remove("m1") and not cache.remove("m1")
    assert "m1" not in cache and cache.covers(1)
    cache.check_integrity()


def test_what_became_of_items_is_told_once_by_predictor() -> None:
    cache = held(items=4)
    cache.add_lasting(POOL[:1], "whole_rung")
    propose(cache, 1, POOL[1:4])
    cache.use(["m3", "m0", "unknown"])
    assert not cache.take_fates(), "all of it is held"
    propose(cache, 2, POOL[4:6], predictor="other")
    assert set(cache.take_fates()) == {Fate("turns", True, 1), Fate("turns", False, 1)}
    cache.remove("m1")
    cache.end()
    assert set(cache.take_fates()) == {Fate("whole_rung", True, 1), Fate("other", False, 2)}
    assert not cache.take_fates()


class HeldSetMachine(RuleBasedStateMachine):
    """A client that follows the differences, and the truth of the claims that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = HeldSet(max_items=12, max_bytes=9_000, coverages_kept=3)
        self.client: set[str] = set()
        self.lasting: set[str] = set()
        self.claims: dict[int, set[str]] = {}
        self.serial = 0

    batches = st.lists(st.integers(0, len(POOL) - 1), max_size=9, unique=True).map(
        lambda numbers: [POOL[number] for number in numbers]
    )

    def follow(self, difference: Difference) -> None:
        added, evicted = set(names(list(difference.added))), set(difference.evicted_ids)
        assert evicted <= self.client and not evicted & (added | self.lasting)
        self.client -= evicted
        assert not self.client & added, "sent twice"
        self.client |= added
        for coverage_id in difference.retired_coverage_ids:
            del self.claims[coverage_id]

    @rule(
        batch=batches,
        predictor=st.sampled_from(["turns", "start", "neighbours"]),
        worth=st.sampled_from([0.2, 0.5, 1.0]),
        claims=st.booleans(),
        later=st.booleans(),
    )
    def propose(
        self, batch: list[IndexedMemory], predictor: str, worth: float, claims: bool, later: bool
    ) -> None:
        self.serial += 1
        cause = self.serial if later else self.serial - 1
        self.follow(
            propose(
                self.cache, self.serial, batch, predictor=predictor, worth=worth, claims=claims, cause=cause
            )
        )
        if self.cache.covers(self.serial):
            assert claims
            self.claims[self.serial] = set(names(batch))

    @rule(batch=batches)
    def last(self, batch: list[IndexedMemory]) -> None:
        if self.cache.fits(batch):
            self.lasting |= set(names(batch))
            self.follow(self.cache.add_lasting(batch, "written"))

    @precondition(lambda self: self.client)
    @rule(data=st.data())
    def invalidate(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.client)))
        assert self.cache.remove(memory_id)
        self.client.discard(memory_id)
        self.lasting.discard(memory_id)
        for claim in self.claims.values():
            claim.discard(memory_id)

    @rule()
    def retire(self) -> None:
        assert set(self.cache.retire_coverages()) == self.claims.keys()
        self.claims.clear()

    @invariant()
    def the_books_are_right(self) -> None:
        self.cache.check_integrity()
        assert set(self.cache.ids) == self.client
        assert self.lasting <= self.client
        assert len(self.claims) <= 3
        for coverage_id, claimed in self.claims.items():
            assert self.cache.covers(coverage_id)
            assert claimed <= self.client, "a claim counts on an item that is not held"


TestHeldSetMachine = HeldSetMachine.TestCase
TestHeldSetMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_every_word_that_is_pushed_counts() -> None:
    """Else a session's budget of bytes is no bound on what its client holds."""
    bare = size_of(indexed("m", vector=VECTOR))
    source = Source("c" * 100, "t" * 100, "u" * 100, ("i" * 36,))
    full = indexed("m", vector=VECTOR, questions=("q" * 1_000,) * 2, key="k" * 100, source=source)
    assert size_of(full) == bare + 2_000 + 100 + 300 + 36
