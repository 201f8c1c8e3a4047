import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precall.scoring.coverage import Coverage, Decision, judge
from precall.scoring.keyword import document_impacts
from precall.scoring.memory_set import Features, MemorySet
from precall.scoring.ranking import RankingWeights, rank

NOW = 1_700_000_000.0
WEIGHTS = RankingWeights()
VOCABULARY = ["pune", "trip", "dog", "cat", "tea", "rain", "train", "april", "mother", "piano"]


def random_unit(generator: np.random.Generator, dimension: int = 8) -> np.ndarray:
    vector = generator.normal(size=dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


def memory_set(generator: np.random.Generator, count: int) -> MemorySet:
    memories = MemorySet(8)
    for number in range(count):
        memories.add(
            f"m{number}",
            Features(
                vector=random_unit(generator).astype(np.float16),
                impacts=document_impacts(list(generator.choice(VOCABULARY, 3))),
                importance=float(generator.uniform()),
                event_seconds=NOW - float(generator.uniform(0, 1e7)),
                servable_from=float("-inf"),
                servable_until=float("inf"),
                depth=1,
            ),
        )
    return memories


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sent=st.integers(5, 40), drift=st.floats(0, 0.8))
def test_sure_is_never_wrong(seed: int, sent: int, drift: float) -> None:
    """Whenever the judgement is SURE, the best held are the best there are."""
    generator = np.random.default_rng(seed)
    everything = memory_set(generator, 60)
    asked, asked_terms = random_unit(generator), list(generator.choice(VOCABULARY, 2))
    weights_of = everything.statistics(asked_terms).weights(asked_terms)
    pushed = rank(everything.candidates(asked, weights_of), WEIGHTS, now=NOW, limit=sent)
    held = MemorySet(8)
    for result in pushed:
        memory_id = everything.ids[result.row]
        held.add(memory_id, everything.features(memory_id))

    read = asked + np.float32(drift) * random_unit(generator)
    read = (read / np.linalg.norm(read)).astype(np.float32)
    read_terms = [*asked_terms, *generator.choice(VOCABULARY, int(generator.integers(0, 2)))]
    statistics = everything.statistics()
    term_weights = statistics.weights(read_terms)
    table = held.candidates(read, term_weights)
    best_held = rank(table, WEIGHTS, now=NOW, limit=3)
    decision = judge(
        read,
        read_terms,
        [result.total for result in best_held],
        [Coverage(asked, frozenset(asked_terms), pushed[-1].total)],
        statistics,
        WEIGHTS,
        limit=3,
    )
    if decision is Decision.SURE:
        truth = rank(everything.candidates(read, term_weights), WEIGHTS, now=NOW, limit=3)
        assert [r.total for r in best_held] == pytest.approx([r.total for r in truth], abs=1e-5)


def test_the_pushed_query_itself_is_sure() -> None:
    generator = np.random.default_rng(1)
    everything = memory_set(generator, 40)
    asked = random_unit(generator)
    best = rank(everything.candidates(asked, {}), WEIGHTS, now=NOW, limit=20)
    coverage = Coverage(asked, frozenset(), best[-1].total)
    totals = [result.total for result in best[:3]]
    statistics = everything.statistics()
    assert judge(asked, [], totals, [coverage], statistics, WEIGHTS, limit=3) is Decision.SURE


def test_nothing_pushed_is_a_miss_and_an_unrelated_read_too() -> None:
    east, north = np.eye(8, dtype=np.float32)[:2]
    statistics = memory_set(np.random.default_rng(2), 5).statistics()
    assert judge(east, [], [0.9] * 3, [], statistics, WEIGHTS, limit=3) is Decision.MISS
    coverage = Coverage(north, frozenset(), 0.95)
    assert judge(east, [], [0.9] * 3, [coverage], statistics, WEIGHTS, limit=3) is Decision.MISS


def test_an_unseen_rare_word_makes_a_near_read_borderline() -> None:
    east = np.eye(8, dtype=np.float32)[0]
    statistics = memory_set(np.random.default_rng(3), 50).statistics()
    coverage = Coverage(east, frozenset(["pune"]), 0.4)
    assert judge(east, ["pune"], [0.5] * 3, [coverage], statistics, WEIGHTS, limit=3) is Decision.SURE
    decision = judge(east, ["pune", "zanzibar"], [0.5] * 3, [coverage], statistics, WEIGHTS, limit=3)
    assert decision is Decision.BORDERLINE


def test_when_nothing_was_left_out_few_results_are_sure_too() -> None:
    east, north = np.eye(8, dtype=np.float32)[:2]
    statistics = memory_set(np.random.default_rng(4), 2).statistics()
    coverage = Coverage(north, frozenset(), 0.0)
    assert judge(east, ["pune"], [0.5, 0.4], [coverage], statistics, WEIGHTS, limit=10) is Decision.SURE
