from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from precall.scoring import coverage, judgement
from precall.scoring.coverage import Coverage, CoveredRead, Decision
from precall.scoring.fusion import Fusion
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import Ranked, RankingWeights, rank
from tests.fakes.memory_sets import NOW, VOCABULARY, memory_set, random_unit

WEIGHTS = RankingWeights()


def judge(
    read_vector: np.ndarray,
    read_terms: Sequence[str],
    held_totals: Sequence[float],
    coverages: Sequence[Coverage],
    statistics: Statistics,
    weights: RankingWeights,
    *,
    limit: int,
) -> Decision:
    """What proofs alone say of a read whose every term may stand outside the cache."""
    terms = tuple(dict.fromkeys(read_terms))
    best = [Ranked(row, total, *[0.0] * 5) for row, total in enumerate(held_totals)]
    queries = np.stack([c.vector for c in coverages]) if coverages else np.empty((0, 8), np.float32)
    read = CoveredRead(read_vector, terms, terms, statistics, weights)
    return judgement.judge(
        read, best, coverages, queries, lambda place: np.empty(0, np.float32), None, limit=limit
    ).decision


SHARES = st.sampled_from([0.7, 0.825, 0.95])


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sent=st.integers(5, 40),
    drift=st.floats(0, 0.8),
    counts=st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 2)),
    shares=st.tuples(SHARES, SHARES),
)
def test_sure_is_never_wrong(
    seed: int, sent: int, drift: float, counts: tuple[int, int, int], shares: tuple[float, float]
) -> None:
    """Whenever the judgement is SURE, the best held are the best there are.

    ``counts``: terms of the pushed query, those that the read leaves out, those that it adds. ``shares``: the
    keyword leg's of the query and of the read.
    """
    generator = np.random.default_rng(seed)
    everything = memory_set(generator, 60, oldest_seconds=1e7)
    asked_count, left_out, added = counts
    asked, asked_terms = random_unit(generator), [str(t) for t in generator.choice(VOCABULARY, asked_count)]
    weights_of = everything.statistics(asked_terms).weights(asked_terms)
    asked_weights = WEIGHTS.fused(Fusion.of(asked_terms, shares[0]))
    pushed = rank(everything.candidates(asked, weights_of), asked_weights, now=NOW, limit=sent)
    held = MemorySet(8)
    for result in pushed:
        memory_id = everything.ids[result.row]
        held.add(memory_id, everything.features(memory_id))

    read = asked + np.float32(drift) * random_unit(generator)
    read = (read / np.linalg.norm(read)).astype(np.float32)
    read_terms = [*asked_terms[left_out:], *(str(t) for t in generator.choice(VOCABULARY, added))]
    statistics = everything.statistics()
    term_weights = statistics.weights(read_terms)
    read_weights = WEIGHTS.fused(Fusion.of(read_terms, shares[1]))
    table = held.candidates(read, term_weights)
    best_held = rank(table, read_weights, now=NOW, limit=3)
    decision = judge(
        read,
        read_terms,
        [result.total for result in best_held],
        [Coverage(asked, frozenset(asked_terms), pushed[-1].total, shares[0])],
        statistics,
        read_weights,
        limit=3,
    )
    event(decision.value)
    if decision is Decision.SURE:
        truth = rank(everything.candidates(read, term_weights), read_weights, now=NOW, limit=3)
        assert [r.total for r in best_held] == pytest.approx([r.total for r in truth], abs=1e-5)


@given(
    new=st.floats(0, 40),
    shared=st.floats(0, 40),
    score=st.floats(0, 1),
    rarer=st.floats(1, 5),
    terms=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    shares=st.tuples(SHARES, SHARES),
)
def test_no_score_gains_more_than_the_bound(
    new: float,
    shared: float,
    score: float,
    rarer: float,
    terms: tuple[int, int],
    shares: tuple[float, float],
) -> None:
    read, asked = (Fusion(3.0 * n, share) for n, share in zip(terms, shares, strict=True))
    before, after = score * shared, rarer * score * shared + new
    gain = read.share * after / (after + read.half) - asked.share * before / (before + asked.half)
    assert gain <= coverage._keyword_gain(new, shared, rarer, read, asked) + 1e-12


@pytest.mark.parametrize("dropped", [[], ["trip"]])
def test_a_read_of_fewer_words_is_bounded_by_its_own_half(dropped: list[str]) -> None:
    """The same evidence counts for more in a shorter read: what was left out may have come closer."""
    east = np.eye(8, dtype=np.float32)[0]
    statistics = Statistics(100, {"pune": 3, "trip": 3})
    read_terms = [term for term in ("pune", "trip") if term not in dropped]
    decision = judge(
        east,
        read_terms,
        [0.45] * 3,
        [Coverage(east, frozenset(["pune", "trip"]), 0.44)],
        statistics,
        WEIGHTS.fused(Fusion.of(read_terms)),
        limit=3,
    )
    assert decision is (Decision.BORDERLINE if dropped else Decision.SURE)


def test_a_floor_says_less_of_terms_that_have_grown_rarer_since() -> None:
    """Of two memories with the word one was deleted: the other, left out, weighs more than its floor says."""
    east = np.eye(8, dtype=np.float32)[0]
    weights = WEIGHTS.fused(Fusion.of(["pune"]))
    for told, now, decision in ((2, 2, Decision.SURE), (1, 2, Decision.SURE), (2, 1, Decision.BORDERLINE)):
        before = coverage.rarity(Statistics(9, {"pune": told}), ["pune"])
        claim = Coverage(east, frozenset(["pune"]), 0.44, rarity=before)
        statistics = Statistics(9, {"pune": now})
        assert judge(east, ["pune"], [0.45] * 3, [claim], statistics, weights, limit=3) is decision


def test_a_read_that_trusts_cosines_more_than_the_query_did_is_bounded_by_that() -> None:
    east = np.eye(8, dtype=np.float32)[0]
    claim = Coverage(east, frozenset(["pune"]), 0.44, keyword_share=0.95)
    statistics = Statistics(100, {"pune": 3})
    for share, decision in ((0.95, Decision.SURE), (0.7, Decision.BORDERLINE)):
        weights = WEIGHTS.fused(Fusion.of(["pune"], share))
        assert judge(east, ["pune"], [0.45] * 3, [claim], statistics, weights, limit=3) is decision


def test_the_pushed_query_itself_is_sure() -> None:
    generator = np.random.default_rng(1)
    everything = memory_set(generator, 40, oldest_seconds=1e7)
    asked = random_unit(generator)
    best = rank(everything.candidates(asked, {}), WEIGHTS, now=NOW, limit=20)
    claim = Coverage(asked, frozenset(), best[-1].total)
    totals = [result.total for result in best[:3]]
    statistics = everything.statistics()
    assert judge(asked, [], totals, [claim], statistics, WEIGHTS, limit=3) is Decision.SURE


def test_nothing_pushed_is_a_miss_and_an_unrelated_read_too() -> None:
    east, north = np.eye(8, dtype=np.float32)[:2]
    statistics = memory_set(np.random.default_rng(2), 5).statistics()
    assert judge(east, [], [0.9] * 3, [], statistics, WEIGHTS, limit=3) is Decision.MISS
    claim = Coverage(north, frozenset(), 0.95)
    assert judge(east, [], [0.9] * 3, [claim], statistics, WEIGHTS, limit=3) is Decision.MISS


def test_an_unseen_rare_word_makes_a_near_read_borderline() -> None:
    east = np.eye(8, dtype=np.float32)[0]
    statistics = memory_set(np.random.default_rng(3), 50).statistics()
    claim = Coverage(east, frozenset(["pune"]), 0.4)
    assert judge(east, ["pune"], [0.5] * 3, [claim], statistics, WEIGHTS, limit=3) is Decision.SURE
    decision = judge(east, ["pune", "zanzibar"], [0.5] * 3, [claim], statistics, WEIGHTS, limit=3)
    assert decision is Decision.BORDERLINE


def test_when_nothing_was_left_out_few_results_are_sure_too() -> None:
    east, north = np.eye(8, dtype=np.float32)[:2]
    statistics = memory_set(np.random.default_rng(4), 2).statistics()
    claim = Coverage(north, frozenset(), 0.0)
    assert judge(east, ["pune"], [0.5, 0.4], [claim], statistics, WEIGHTS, limit=10) is Decision.SURE
