"""A rung's partition: exact at every size, whole at every moment."""

import dataclasses

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

from precall.engine.errors import InvalidVector
from precall.engine.index import lately_pushed
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.selection import Selection
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.ranking import RankingWeights, rank
from tests.fakes.memories import DANA, NOW, clustered, indexed, moment, near, sentence

DIMENSION = 384
DAY = 86_400.0


def memories(
    count: int, *, seed: int = 1, dimension: int = DIMENSION, prefix: str = "m"
) -> list[IndexedMemory]:
    generator = np.random.default_rng(seed)
    vectors = clustered(count, dimension, seed=seed)
    return [
        indexed(
            f"{prefix}{number}",
            vector=vectors[number],
            text=sentence(generator),
            importance=float(generator.choice([0.0, 0.25, 0.5, 1.0])),
            event=NOW - float(generator.exponential(60 * DAY)),
        )
        for number in range(count)
    ]


def brute_force(
    held: list[IndexedMemory],
    cosines: NDArray[np.float64],
    term_weights: dict[str, float],
    weights: RankingWeights,
    now: float = NOW,
) -> dict[str, float]:
    """Id -> total of all servable memories, written from DESIGN.md in float64."""
    totals = {}
    for each, cosine in zip(held, np.clip(cosines, 0, 1).tolist(), strict=True):
        memory = each.memory
        if memory.servable_from <= now < memory.servable_until:
            bm25 = sum(weight * each.impacts.get(term, 0.0) for term, weight in term_weights.items())
            fusion = weights.fusion
            relevance = (1 - fusion.share) * cosine + fusion.share * bm25 / (bm25 + fusion.half)
            age = max(0.0, now - memory.event_time.timestamp())
            recency = 0.5 ** (age / weights.half_life_seconds)
            totals[memory.id] = (
                weights.relevance * relevance
                + weights.importance * memory.importance
                + weights.recency * recency
            )
    return totals


def assert_exact(
    partition: Partition,
    held: list[IndexedMemory],
    *,
    weights: RankingWeights,
    queries: int = 8,
    limit: int = 10,
    now: float = NOW,
) -> None:
    """Every result's total is right, and no better memory was left out: recall 1, up to ties."""
    generator = np.random.default_rng(99)
    matrix = np.stack([each.vector for each in held]).astype(np.float64)
    for number in range(queries):
        query = near(held[int(generator.integers(len(held)))].vector.astype(np.float32), seed=number)
        term_weights = dict.fromkeys(sentence(generator, 3).split(), 3.0)
        expected = brute_force(held, matrix @ query, term_weights, weights, now)
        table = partition.candidates(query, term_weights, Selection(weights, now, limit))
        found = rank(table, weights, now=now, limit=limit)
        assert len(found) == min(limit, len(expected))
        ids = [table.ids[result.row] for result in found]
        assert len(set(ids)) == len(ids)
        for memory_id, result in zip(ids, found, strict=True):
            assert result.total == pytest.approx(expected[memory_id], abs=2e-6)
        best = sorted(expected.values(), reverse=True)[:limit]
        assert [result.total for result in found] == pytest.approx(best, abs=2e-6)


WEIGHTS = [RankingWeights(), RankingWeights(1.0, 0.0, 0.0), RankingWeights(0.1, 0.9, 0.0)]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("count", [1, 10, 100, 1_000, 5_000])
def test_the_best_ten_are_those_of_a_brute_force(count: int, quantized: bool) -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=1 if quantized else 10**9))
    held = memories(count)
    partition.apply(added=held)
    assert partition.quantized is quantized
    for weights in WEIGHTS:
        assert_exact(partition, held, weights=weights, queries=3 if count > 1_000 else 8)
    assert_exact(partition, held, weights=WEIGHTS[0], queries=2, limit=200)


def test_still_exact_after_half_was_deleted() -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=500))
    held = memories(1_200)
    partition.apply(added=held)
    partition.apply(removed=[each.memory.id for each in held[::2]])
    partition.check_integrity()
    assert partition.quantized
    assert_exact(partition, held[1::2], weights=WEIGHTS[0])
    assert_exact(partition, held[1::2], weights=WEIGHTS[1])


def test_exact_although_outliers_came_before_and_after_training() -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=600))
    spikes = [
        indexed(f"spike{axis}", vector=np.eye(DIMENSION)[axis] * (-1) ** axis, text="pune")
        for axis in range(40)
    ]
    held = [*spikes[:20], *memories(900), *spikes[20:]]
    partition.apply(added=held[:700])
    partition.apply(added=held[700:])
    partition.check_integrity()
    for weights in WEIGHTS:
        assert_exact(partition, held, weights=weights)


def test_exact_after_other_memories_took_the_place_of_all_that_the_ranges_were_trained_on() -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=400))
    partition.apply(added=memories(400))
    newcomers: list[IndexedMemory] = []
    for turn in range(4):
        arrivals = memories(390, seed=50 + turn, prefix=f"n{turn}-")
        leaving = newcomers or memories(400)[10:]
        partition.apply(added=arrivals, removed=[each.memory.id for each in leaving])
        newcomers = arrivals
    partition.check_integrity()
    assert_exact(partition, [*memories(400)[:10], *newcomers], weights=WEIGHTS[0])


def test_what_may_not_be_served_does_not_crowd_out_what_may() -> None:
    """Filtered search must not run short of results although there are more."""
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=100))
    held = memories(1_000)
    for number, each in enumerate(held[:985]):
        window = {"expires_at": moment(NOW - 1)} if number % 2 else {"valid_from": moment(NOW + 1)}
        held[number] = dataclasses.replace(each, memory=dataclasses.replace(each.memory, **window))
    partition.apply(added=held)
    assert_exact(partition, held, weights=WEIGHTS[0])
    assert_exact(partition, held, weights=WEIGHTS[0], now=NOW + 1, queries=3)


def test_a_memory_scores_the_same_to_the_last_bit_whatever_stands_beside_it() -> None:
    """A cache holds fewer rows than the server, and must break ties as the server does."""
    held = memories(700)
    query = near(held[3].vector.astype(np.float32), seed=1)
    scores: dict[str, float] = {}
    for count, exact_below in ((700, 10**9), (700, 1), (50, 10**9), (1, 1)):
        partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=exact_below))
        partition.apply(added=held[:count])
        table = partition.candidates(query, {"pune": 2.0}, Selection(RankingWeights(), NOW, 10))
        for found in rank(table, RankingWeights(), now=NOW, limit=700):
            assert scores.setdefault(table.ids[found.row], found.total) == found.total


def test_a_keyword_alone_finds_its_memory_among_codes() -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=100))
    held = memories(2_000)
    held[1_234] = indexed("rare", vector=-held[7].vector.astype(np.float32), text="zeppelin", importance=0.0)
    partition.apply(added=held)
    query = held[7].vector.astype(np.float32)
    table = partition.candidates(query, {"zeppelin": 9.0}, Selection(RankingWeights(1, 0, 0), NOW, 10))
    assert "rare" in [
        table.ids[found.row] for found in rank(table, RankingWeights(1, 0, 0), now=NOW, limit=10)
    ]


@pytest.mark.parametrize(
    "vector",
    [
        np.full(DIMENSION, np.nan),
        np.zeros(DIMENSION),
        np.full(DIMENSION, 0.5),
        np.full(DIMENSION, np.inf),
        np.eye(DIMENSION)[0] * 1.05,
        np.eye(8)[0],
    ],
    ids=["nan", "zero", "long", "infinite", "slightly long", "other dimension"],
)
@pytest.mark.parametrize("exact_below", [1, 10**9])
def test_an_unusable_vector_is_refused_and_nothing_is_changed(
    vector: NDArray[np.float64], exact_below: int
) -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=exact_below))
    held = memories(50)
    partition.apply(added=held)
    good = memories(1, seed=9, prefix="good")
    bad = dataclasses.replace(held[0], vector=vector.astype(np.float16))
    bad = dataclasses.replace(bad, memory=dataclasses.replace(bad.memory, id="bad"))
    with pytest.raises(InvalidVector):
        partition.apply(added=[*good, bad], removed=[held[0].memory.id])
    assert {each.memory.id for each in partition.all()} == {each.memory.id for each in held}
    partition.check_integrity()


def test_an_id_that_is_held_already_is_refused_and_nothing_is_changed() -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=1))
    held = memories(5)
    partition.apply(added=held)
    new = memories(2, seed=3, prefix="new")
    for batch in ([new[0], held[3]], [new[0], new[0]]):
        with pytest.raises(ValueError, match="already"):
            partition.apply(added=batch, removed=["m0"])
        assert sorted(each.memory.id for each in partition.all()) == ["m0", "m1", "m2", "m3", "m4"]
    partition.apply(added=[held[3]], removed=["m3", "m3", "unknown"])
    partition.check_integrity()
    assert len(partition) == 5


def test_a_memory_comes_back_as_it_was_given() -> None:
    for exact_below in (1, 10**9):
        partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=exact_below))
        held = memories(20)
        partition.apply(added=held)
        returned = {each.memory.id: each for each in partition.all()}
        for each in held:
            back = returned[each.memory.id]
            assert back.memory is each.memory
            assert np.array_equal(back.vector, each.vector)
            assert dict(back.impacts) == pytest.approx(dict(each.impacts))
        assert partition.indexed("unknown") is None
        assert partition.memory("unknown") is None
        assert partition.terms(["m3", "unknown"]) == set(held[3].impacts)


def test_removed_vectors_leave_no_bytes_behind() -> None:
    """In the matrix (capacity included) and in the codes there is nothing but what is held."""
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=100))
    held = memories(300)
    partition.apply(added=held)
    secret = held[42]
    partition.apply(removed=["m42", *(f"m{number}" for number in range(100, 290))])
    rows = partition._set._vectors.astype(np.float16)
    assert not (rows == secret.vector).all(axis=1).any()
    assert not rows[len(partition) :].any()
    partition.check_integrity()  # that every code is a held row's
    partition.apply(removed=[each.memory.id for each in held])
    assert len(partition) == 0 and not partition._set._vectors.any()
    partition.check_integrity()


def test_an_emptied_partition_answers_with_nothing_and_fills_again() -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=10))
    held = memories(30)
    partition.apply(added=held)
    for each in held[:-1]:
        partition.apply(removed=[each.memory.id])
    query = held[0].vector.astype(np.float32)
    selection = Selection(RankingWeights(), NOW, 10)
    assert partition.candidates(query, {}, selection).ids == ["m29"]
    partition.apply(removed=["m29"])
    assert partition.candidates(query, {}, selection).ids == []
    partition.apply(added=held)
    assert_exact(partition, held, weights=WEIGHTS[0], queries=3)


class PartitionMachine(RuleBasedStateMachine):
    """Random writes and deletes in a quantised partition against a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = Partition(DANA, 16, PartitionSettings(exact_below=8))
        self.model: dict[str, IndexedMemory] = {}
        self.serial = 0

    def fresh(self, count: int) -> list[IndexedMemory]:
        self.serial += 1
        return memories(count, seed=self.serial, dimension=16, prefix=f"{self.serial}-")

    @rule(count=st.integers(1, 12))
    def write(self, count: int) -> None:
        batch = self.fresh(count)
        self.partition.apply(added=batch)
        self.model.update((each.memory.id, each) for each in batch)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), replacing=st.booleans())
    def remove(self, data: st.DataObject, replacing: bool) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, max_size=8, unique=True))
        batch = self.fresh(len(ids)) if replacing else []
        self.partition.apply(added=batch, removed=ids)
        for memory_id in ids:
            del self.model[memory_id]
        self.model.update((each.memory.id, each) for each in batch)

    @invariant()
    def holds_and_finds_what_the_model_does(self) -> None:
        self.partition.check_integrity()
        assert {each.memory.id for each in self.partition.all()} == self.model.keys()
        if self.model:
            assert_exact(self.partition, list(self.model.values()), weights=WEIGHTS[0], queries=1, limit=3)


TestPartitionMachine = PartitionMachine.TestCase
TestPartitionMachine.settings = settings(max_examples=10, stateful_step_count=12, deadline=None)


def test_what_the_codes_describe_badly_is_found_all_the_same() -> None:
    """An event long after those that the codes were made for counts for nothing in its code."""
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=100))
    held = memories(1_000)
    now = NOW + 400 * DAY
    asked = held[0].vector.astype(np.float32)
    aside = np.random.default_rng(2).standard_normal(DIMENSION)
    aside -= (aside @ asked) * asked
    late = indexed("late", vector=0.45 * asked + 0.89 * aside / np.linalg.norm(aside), event=now)
    partition.apply(added=held)
    partition.apply(added=[late])
    selection = Selection(RankingWeights(1.0, 0.0, 0.1), now, 2)
    table = partition.candidates(asked, {}, selection)
    found = rank(table, selection.weights, now=now, limit=2)
    assert [table.ids[each.row] for each in found] == ["m0", "late"]


def test_what_was_made_of_a_memory_is_kept_until_the_memory_changes() -> None:
    """A large rung is pushed to many: its memories are given out as they were made, if they still stand."""
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=5))
    held = memories(10)
    partition.apply(added=held)
    first = partition.indexed("m3")
    assert first is not None and partition.indexed("m3") is first
    first.derived.wire = b"made"
    changed = dataclasses.replace(held[3], impacts={"tea": 1.0})
    assert not changed.derived.wire
    partition.apply(added=[changed], removed=["m3"])
    again = partition.indexed("m3")
    assert again is not None and dict(again.impacts) == {"tea": 1.0} and not again.derived.wire
    partition.check_integrity()
    partition.apply(removed=["m3"])
    assert partition.indexed("m3") is None
    partition.apply(removed=[each.memory.id for each in held])
    assert partition.indexed("m4") is None


def test_of_a_huge_rung_a_bounded_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lately_pushed, "MOST", 4)
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=5))
    partition.apply(added=memories(10))
    for number in range(10):
        partition.indexed(f"m{number}")
    assert len(partition._lately._held) == 4
    partition.check_integrity()
