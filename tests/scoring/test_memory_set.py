from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from precall.scoring.keyword import document_impacts
from precall.scoring.memory_columns import FeatureBlock, Features
from precall.scoring.memory_set import MemorySet, concatenate


def features(seed: int) -> Features:
    generator = np.random.default_rng(seed)
    vector = generator.normal(size=4)
    return Features(
        vector=(vector / np.linalg.norm(vector)).astype(np.float16),
        impacts=document_impacts(list(generator.choice(["pune", "dog", "tea"], 2))),
        importance=0.25,
        event_seconds=float(seed),
        servable_from=float("-inf"),
        servable_until=float("inf"),
        depth=1 + seed % 2,
    )


def block_of(rows: list[Features]) -> FeatureBlock:
    return FeatureBlock(
        vectors=np.array([row.vector for row in rows], np.float16).reshape(len(rows), 4),
        terms=[tuple(row.impacts) for row in rows],
        impacts=np.array([impact for row in rows for impact in row.impacts.values()], np.float32),
        importance=np.array([row.importance for row in rows], np.float32),
        moments=np.array(
            [(row.event_seconds, row.servable_from, row.servable_until) for row in rows]
        ).reshape(len(rows), 3),
        depth=1,
    )


class MemorySetMachine(RuleBasedStateMachine):
    """The set against a dictionary that is scored row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.set = MemorySet(4)
        self.model: dict[str, Features] = {}
        self.next_id = 0

    @rule(seed=st.integers(0, 1_000))
    def add(self, seed: int) -> None:
        memory_id = f"m{self.next_id}"
        self.next_id += 1
        self.model[memory_id] = features(seed)
        self.set.add(memory_id, self.model[memory_id])

    @rule(seeds=st.lists(st.integers(0, 500).map(lambda half: 2 * half), max_size=80))
    def extend(self, seeds: list[int]) -> None:
        ids = [f"m{self.next_id + number}" for number in range(len(seeds))]
        self.next_id += len(ids)
        rows = [features(seed) for seed in seeds]
        self.set.extend(ids, block_of(rows))
        self.model.update(zip(ids, rows, strict=True))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.model)))
        del self.model[memory_id]
        self.set.remove(memory_id)

    @rule()
    def halve(self) -> None:
        self.set.halve()

    @invariant()
    def scores_equal_those_of_the_model(self) -> None:
        self.set.check_integrity()
        assert set(self.set.ids) == self.model.keys()
        query = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
        table = self.set.candidates(query, {"pune": 2.0})
        for row, memory_id in enumerate(table.ids):
            expected = self.model[memory_id]
            dense = float(expected.vector.astype(np.float32) @ query)
            assert table.dense[row] == pytest.approx(dense, abs=1e-6)
            assert table.keyword[row] == pytest.approx(2.0 * expected.impacts.get("pune", 0.0), abs=1e-5)
            assert table.event_seconds[row] == expected.event_seconds
            assert table.depth[row] == expected.depth


TestMemorySet = MemorySetMachine.TestCase


@given(first=st.lists(st.integers(0, 500), max_size=5), second=st.lists(st.integers(0, 500), max_size=70))
def test_many_at_once_are_as_good_as_one_by_one(first: list[int], second: list[int]) -> None:
    whole, single = MemorySet(4), MemorySet(4)
    for part, seeds in (("a", first), ("b", second)):
        rows = [features(2 * seed) for seed in seeds]
        ids = [f"{part}{number}" for number in range(len(seeds))]
        whole.extend(ids, block_of(rows))
        for memory_id, row in zip(ids, rows, strict=True):
            single.add(memory_id, row)
    whole.check_integrity()
    assert whole.ids == single.ids and len(whole) == len(first) + len(second)
    for memory_id in single.ids:
        ours, theirs = whole.features(memory_id), single.features(memory_id)
        assert (ours.vector == theirs.vector).all()
        assert replace(ours, vector=None) == replace(theirs, vector=None)
        assert list(ours.impacts) == list(theirs.impacts)
    assert vars(whole.statistics()) == vars(single.statistics())
    weights = {"pune": 1.5, "dog": 0.3, "cat": 9.0}
    np.testing.assert_array_equal(whole.keywords.scores(weights), single.keywords.scores(weights))


@pytest.mark.parametrize("halved", [False, True])
def test_room_that_was_made_before_changes_nothing_but_where_rows_stand(halved: bool) -> None:
    rows = [features(2 * seed) for seed in range(150)]
    ids = [f"a{number}" for number in range(150)]
    roomy, single = MemorySet(4), MemorySet(4)
    if halved:
        roomy.halve()
    roomy.reserve(140)
    before = roomy.vectors.base
    roomy.extend(ids[:140], block_of(rows[:140]))
    assert roomy.vectors.base is before, "what was there has been moved"
    roomy.extend(ids[140:], block_of(rows[140:]))
    roomy.reserve(10)
    for memory_id, row in zip(ids, rows, strict=True):
        single.add(memory_id, row)
    roomy.check_integrity()
    np.testing.assert_array_equal(roomy.vectors, single.vectors)
    assert roomy.vectors.dtype == (np.float16 if halved else np.float32)


def test_a_block_that_does_not_fit_changes_nothing() -> None:
    memories = MemorySet(4)
    memories.add("a", features(2))
    block = block_of([features(2), features(4)])
    for ids in (["b", "a"], ["b", "b"]):
        with pytest.raises(ValueError, match="held already, or comes twice"):
            memories.extend(ids, block)
    for wrong in (
        replace(block, vectors=block.vectors[:1]),
        replace(block, importance=block.importance[:1]),
        replace(block, impacts=block.impacts[:-1]),
    ):
        with pytest.raises(ValueError, match=r"shape|length|impacts"):
            memories.extend(["b", "c"], wrong)
    memories.check_integrity()
    assert memories.ids == ["a"]
    memories.extend(["b", "c"], block)
    assert memories.ids == ["a", "b", "c"]


def test_features_come_back_as_they_were_given() -> None:
    memories = MemorySet(4)
    given = features(7)
    memories.add("a", given)
    returned = memories.features("a")
    assert (returned.vector == given.vector).all() and returned.vector.dtype == np.float16
    assert returned.impacts == given.impacts
    assert (returned.event_seconds, returned.depth) == (given.event_seconds, given.depth)


def test_the_same_id_twice_is_refused_and_a_wrong_dimension_too() -> None:
    memories = MemorySet(4)
    memories.add("a", features(1))
    with pytest.raises(ValueError, match="already"):
        memories.add("a", features(2))
    with pytest.raises(ValueError, match="shape"):
        MemorySet(5).add("b", features(1))


def test_chosen_slots_score_as_they_do_among_all() -> None:
    memories = MemorySet(4)
    for seed in range(9):
        memories.add(f"m{seed}", features(seed))
    query = np.array([1, 0, 0, 0], np.float32)
    whole = memories.candidates(query, {"dog": 1.0})
    part = memories.candidates(query, {"dog": 1.0}, np.array([7, 2]))
    assert part.ids == ["m7", "m2"]
    assert part.dense.tolist() == pytest.approx([whole.dense[7], whole.dense[2]])
    assert concatenate([part, part]).ids == ["m7", "m2", "m7", "m2"]
