"""A cache that is not complete, read by a light encoder's vector."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from precall.scoring.approximation import SPREADS, UNREADABLE, Approximation
from precall.scoring.coverage import Coverage, CoveredRead, Decision
from precall.scoring.fusion import Fusion
from precall.scoring.judgement import Judgement, judge
from precall.scoring.keyword import Statistics
from precall.scoring.ranking import Candidates, Ranked, RankingWeights, rank

WEIGHTS = RankingWeights().fused(Fusion.of(()))
LIMIT = 4


def unit(vector: NDArray[np.floating]) -> NDArray[np.float32]:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def ranked(memories: NDArray[np.float32], vector: NDArray[np.float32], limit: int) -> list[Ranked]:
    """By cosine alone; all memories of one age and importance."""
    count = len(memories)
    flat = np.zeros(count)
    candidates = Candidates(
        [f"{row:03}" for row in range(count)],
        memories @ vector,
        np.zeros(count, np.float32),
        np.zeros(count, np.float32),
        flat,
        flat - 1,
        flat + 1,
        np.ones(count, np.int32),
    )
    return rank(candidates, WEIGHTS, now=0.0, limit=limit)


class Held:
    """Of 60 memories the best ``sent`` for one query."""

    def __init__(self, seed: int, sent: int) -> None:
        self.random = np.random.default_rng(seed)
        rows = self.random.normal(size=(60, 6)) + 2.0  # one side of the space, so that no cosine is cut at 0
        self.memories = np.stack([unit(np.abs(row)) for row in rows])
        self.query = unit(np.abs(self.random.normal(size=6)) + 0.5)
        best = ranked(self.memories, self.query, sent)
        self.rows = np.array([each.row for each in best])
        self.coverage = Coverage(self.query, frozenset(), best[-1].total, WEIGHTS.fusion.share)

    def near(self, vector: NDArray[np.float32], drift: float) -> NDArray[np.float32]:
        return unit(np.abs(vector + drift * self.random.normal(size=6)))

    def judged(self, vector: NDArray[np.float32], approximation: Approximation | None) -> Judgement:
        read = CoveredRead(vector, (), frozenset(), Statistics(60), WEIGHTS, approximation=approximation)
        best = ranked(self.memories[self.rows], vector, LIMIT + 1)
        return judge(
            read,
            best,
            (self.coverage,),
            self.query[None],
            lambda _: np.zeros(len(self.rows), np.float32),
            None,
            limit=LIMIT,
        )


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10_000),
    sent=st.integers(4, 50),
    drift=st.floats(0, 0.3),
    error=st.floats(0, 0.3),
)
def test_what_is_proven_has_the_models_best_three(seed: int, sent: int, drift: float, error: float) -> None:
    held = Held(seed, sent)
    exact = held.near(held.query, drift)
    light = held.near(exact, error)
    errors = held.memories @ (light - exact)
    spread = float(errors.max() - errors.min()) * 1.001 + 1e-6
    approximation = Approximation(float(np.linalg.norm(light - exact)), spread / SPREADS)
    judgement = held.judged(light, approximation)
    event(judgement.decision.value)
    if judgement.proven:
        wanted = {each.row for each in ranked(held.memories, exact, 3)}
        found = ranked(held.memories[held.rows], light, LIMIT)
        assert wanted <= {int(held.rows[each.row]) for each in found}


def test_an_error_that_changes_no_order_costs_no_proof() -> None:
    held = Held(3, 40)
    assert held.judged(held.query, Approximation(0.6, 0.0)).proven
    assert not held.judged(held.query, Approximation(0.6, 0.5)).proven


def test_what_is_not_held_counts_however_well_the_held_are_ordered() -> None:
    held, exactly = Held(3, LIMIT), Approximation(0.0, 0.0)
    assert held.judged(held.query, exactly).proven
    assert not held.judged(held.near(held.query, 0.5), exactly).proven


def test_a_read_that_may_be_near_is_raced_for_and_one_that_nothing_is_known_of_is_not() -> None:
    held = Held(3, 6)
    aside = held.random.normal(size=6)
    far = unit(held.query + 0.9 * unit(aside - (aside @ held.query) * held.query))
    distance = float(np.linalg.norm(far - held.query))
    assert math.sqrt(0.5) < distance < math.hypot(math.sqrt(0.5), 0.7)
    decisions = [
        held.judged(far, approximation).decision
        for approximation in (None, Approximation(0.7, 0.5), UNREADABLE)
    ]
    assert decisions == [Decision.MISS, Decision.BORDERLINE, Decision.MISS]


def test_a_rung_that_is_held_whole_still_hangs_on_the_order() -> None:
    held = Held(3, 40)
    held.coverage = replace(held.coverage, floor=0.0)
    assert held.judged(held.query, Approximation(0.6, 0.0)).proven
    assert held.judged(held.query, Approximation(0.6, 0.5)).decision is Decision.BORDERLINE
