"""What a light encoder's vector may conclude."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from precall.scoring.approximation import SPREADS, UNREADABLE, Approximation
from precall.scoring.fusion import Fusion
from precall.scoring.ranking import Candidates, Ranked, RankingWeights, rank

HALF = RankingWeights(relevance=1.0, importance=0.0, recency=0.0, fusion=Fusion(1.0, 0.5))
"""Of a total, the cosine is one half."""


def ranked(*totals: float) -> list[Ranked]:
    return [Ranked(row, total, total, 0.0, 0.0, total, 0.0) for row, total in enumerate(totals)]


def test_the_served_must_lead_what_is_not_served_by_the_doubt() -> None:
    approximation = Approximation(distance=0.5, score=0.1)
    doubt = approximation.doubt(HALF)
    assert doubt == pytest.approx(0.5 * SPREADS * 0.1)
    best = ranked(0.9, 0.8, 0.7, 0.65, 0.7 - doubt - 1e-6)
    assert approximation.settles(best, HALF, limit=4)
    assert not approximation.settles(best[:4] + ranked(0.7 - doubt + 1e-6), HALF, limit=4)


def test_what_is_not_held_counts_like_what_is_not_served() -> None:
    approximation = Approximation(distance=0.5, score=0.1)
    doubt = approximation.doubt(HALF)
    best = ranked(0.9, 0.8, 0.7, 0.1)
    assert approximation.settles(best, HALF, limit=4, unheld=0.7 - doubt - 1e-6)
    assert not approximation.settles(best, HALF, limit=4, unheld=0.7 - doubt + 1e-6)
    assert not approximation.settles(best[:2], HALF, limit=4, unheld=0.0), "the third is not even held"


def test_all_there_is_may_be_served_whatever_the_vector_is_worth() -> None:
    assert UNREADABLE.settles(ranked(0.9, 0.8), HALF, limit=2)
    assert UNREADABLE.settles([], HALF, limit=2)
    assert not UNREADABLE.settles(ranked(0.9, 0.8, 0.1), HALF, limit=2)


def test_a_smaller_share_of_the_cosine_needs_a_smaller_lead() -> None:
    approximation = Approximation(distance=0.5, score=0.1)
    shares = [dataclasses.replace(HALF, fusion=Fusion(1.0, share)) for share in (0.0, 0.5, 0.9)]
    doubts = [approximation.doubt(weights) for weights in shares]
    assert doubts == sorted(doubts, reverse=True)


@pytest.mark.parametrize("wrong", [{"distance": -0.1}, {"score": math.nan}, {"distance": math.nan}])
def test_what_is_no_measure_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Approximation(**({"distance": 0.5, "score": 0.1} | wrong))


@given(
    cosines=arrays.arrays(np.float32, st.integers(1, 30), elements=st.floats(0, 1, width=32)),
    errors=arrays.arrays(np.float32, 30, elements=st.floats(-1, 1, width=32)),
    limit=st.integers(1, 12),
    common=st.floats(-0.2, 0.2),
)
def test_while_no_error_is_larger_than_reckoned_the_best_three_are_served(
    cosines: np.ndarray, errors: np.ndarray, limit: int, common: float
) -> None:
    """However large the error is that all memories share. The rule allows errors up to half of the lead."""
    approximation = Approximation(distance=0.3, score=0.05)
    within = SPREADS * approximation.score / 2 * 0.999
    cosines = 0.3 + 0.4 * cosines  # so that no cosine is cut at 0 or 1
    light = (cosines + np.float32(common) + errors[: len(cosines)] * np.float32(within)).astype(np.float32)
    by_light = rank(table(light), HALF, now=0.0, limit=limit + 1)
    if approximation.settles(by_light, HALF, limit=limit):
        best = rank(table(cosines), HALF, now=0.0, limit=min(3, limit))
        reached = min(each.total for each in best)
        served = {each.row for each in by_light[:limit]}
        totals = {each.row: each.total for each in rank(table(cosines), HALF, now=0.0, limit=99)}
        missed = [row for row in totals if row not in served and totals[row] > reached + 1e-6]
        assert not missed, "not served, though better than the third best"


def table(cosines: np.ndarray) -> Candidates:
    count = len(cosines)
    flat = np.zeros(count)
    return Candidates(
        ids=[str(row) for row in range(count)],
        dense=cosines.astype(np.float32),
        keyword=np.zeros(count, np.float32),
        importance=np.zeros(count, np.float32),
        event_seconds=flat,
        servable_from=flat - 1,
        servable_until=flat + 1,
        depth=np.ones(count, np.int32),
    )
