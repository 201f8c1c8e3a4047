"""The server's books of one cache: within the budget, and no claim without its items."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from precall.engine.anticipation.held import Difference, HeldSet, size_of
from precall.engine.memory.memory import IndexedMemory, Source
from tests.fakes.memories import indexed

VECTOR = np.eye(8)[0]
POOL = [indexed(f"m{n}", vector=VECTOR, text="x" * (1 + 40 * (n % 5))) for n in range(40)]


def held(items: int = 10, *, coverages: int = 3, megabytes: int = 1) -> HeldSet:
    return HeldSet(max_items=items, max_bytes=megabytes * 2**20, coverages_kept=coverages)


def names(memories: list[IndexedMemory]) -> list[str]:
    return [each.memory.id for each in memories]


def answer(cache: HeldSet, coverage_id: int, batch: list[IndexedMemory]) -> Difference:
    """What a query found, offered as a session offers it: with the content of what is not held."""
    new = [each for each in batch if each.memory.id not in cache]
    return cache.add_answer(coverage_id, names(batch), new)


def test_an_answer_is_held_and_covered() -> None:
    cache = held()
    difference = answer(cache, 1, POOL[:4])
    assert names(list(difference.added)) == ["m0", "m1", "m2", "m3"]
    assert not difference.evicted_ids and not difference.retired_coverage_ids
    assert cache.covers(1) and not cache.covers(2)
    assert names(list(answer(cache, 2, POOL[2:6]).added)) == ["m4", "m5"]


def test_the_oldest_answer_makes_room_and_takes_its_claim_with_it() -> None:
    cache = held(items=6)
    answer(cache, 1, POOL[:4])
    difference = answer(cache, 2, POOL[3:8])
    assert list(difference.retired_coverage_ids) == [1]
    assert sorted(difference.evicted_ids) == ["m0", "m1", "m2"]
    assert cache.covers(2) and not cache.covers(1) and len(cache) == 5


def test_an_item_with_another_reason_stays() -> None:
    cache = held(items=8, coverages=2)
    cache.add_lasting(POOL[:1])
    answer(cache, 1, POOL[:3])
    answer(cache, 2, POOL[2:4])
    difference = answer(cache, 3, POOL[4:6])
    assert list(difference.retired_coverage_ids) == [1]
    assert list(difference.evicted_ids) == ["m1"]


def test_an_answer_that_does_not_fit_is_cut_and_claims_nothing() -> None:
    cache = held(items=5)
    cache.add_lasting(POOL[:3])
    difference = answer(cache, 1, POOL[5:9])
    assert names(list(difference.added)) == ["m5", "m6"], "the best first"
    assert not cache.covers(1)


def test_the_budget_counts_bytes_too() -> None:
    room = sum(size_of(each) for each in POOL[:3])
    cache = HeldSet(max_items=99, max_bytes=room, coverages_kept=3)
    assert cache.fits(POOL[:3]) and not cache.fits(POOL[:4])
    answer(cache, 1, POOL[:3])
    assert cache.bytes == room
    assert cache.fits(POOL[:3]), "what is held needs no room"


def test_an_invalidated_item_is_forgotten_and_claims_stay() -> None:
    cache = held()
    answer(cache, 1, POOL[:3])
    assert cache.remove("m1") and not cache.remove("m1")
    assert "m1" not in cache and cache.covers(1)
    cache.check_integrity()


class HeldSetMachine(RuleBasedStateMachine):
    """A client that follows the differences, and the truth of the claims that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = HeldSet(max_items=12, max_bytes=9_000, coverages_kept=3)
        self.client: set[str] = set()
        self.claims: dict[int, set[str]] = {}
        self.serial = 0

    batches = st.lists(st.integers(0, len(POOL) - 1), max_size=9, unique=True).map(
        lambda numbers: [POOL[number] for number in numbers]
    )

    @rule(batch=batches)
    def answer(self, batch: list[IndexedMemory]) -> None:
        self.serial += 1
        difference = answer(self.cache, self.serial, batch)
        assert not set(difference.evicted_ids) & set(names(list(difference.added)))
        self.client -= set(difference.evicted_ids)
        assert not self.client & set(names(list(difference.added))), "sent twice"
        self.client |= set(names(list(difference.added)))
        for coverage_id in difference.retired_coverage_ids:
            del self.claims[coverage_id]
        if self.cache.covers(self.serial):
            self.claims[self.serial] = set(names(batch))

    @rule(batch=batches)
    def last(self, batch: list[IndexedMemory]) -> None:
        if self.cache.fits(batch):
            self.client |= set(names(list(self.cache.add_lasting(batch))))

    @precondition(lambda self: self.client)
    @rule(data=st.data())
    def invalidate(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.client)))
        assert self.cache.remove(memory_id)
        self.client.discard(memory_id)
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
