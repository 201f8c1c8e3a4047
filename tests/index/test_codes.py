"""Codes, flat and listed: what they say of totals is as near as they claim, through every removal."""

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.index import clusters
from precall.engine.index.coder import Coder
from precall.engine.index.codes import Codes, FlatCodes, Question
from precall.engine.index.listed import ListedCodes, merit
from precall.engine.index.score_space import HALF_LIFE
from precall.scoring.ranking import RankingWeights, recency
from tests.fakes.memories import NOW, clustered

DIMENSION = 64
DAY = 86_400.0


class Table:
    """Vectors with importances and ages, and their totals without keywords, uncut, written from DESIGN.md."""

    def __init__(self, count: int, *, seed: int, newest: float = NOW) -> None:
        generator = np.random.default_rng(seed)
        self.vectors = clustered(count, DIMENSION, seed=seed)
        self.importance = generator.random(count).astype(np.float32)
        self.events = newest - generator.exponential(40 * DAY, count)

    def totals(self, question: Question) -> NDArray[np.float64]:
        weights = question.weights
        cosines = self.vectors.astype(np.float64) @ question.vector
        return (
            weights.relevance * (1 - weights.fusion.share) * cosines
            + weights.importance * self.importance
            + weights.recency * recency(self.events, question.now, weights.half_life_seconds)
        )

    def rows(self, coder: Coder) -> NDArray[np.float32]:
        return coder.space.rows(self.vectors, self.importance, self.events)


def make(kind: str, table: Table) -> Codes:
    coder = Coder(table.vectors, table.importance, table.events)
    rows = table.rows(coder)
    codes: Codes
    if kind == "flat":
        codes = FlatCodes(coder)
    else:
        merits = merit(coder.space, rows)
        tiers = np.quantile(merits, [0.5, 0.9]).astype(np.float32)
        codes = ListedCodes(coder, clusters.train(table.vectors, merits, 20), tiers)
    codes.add(rows)
    return codes


WEIGHTS = [RankingWeights(), RankingWeights(1, 0, 0), RankingWeights(0, 1, 1), RankingWeights(0.2, 0.3, 0.5)]


@pytest.mark.parametrize("kind", ["flat", "listed"])
@pytest.mark.parametrize("later", [0.0, 5 * DAY, 2_000 * DAY])
def test_totals_by_code_are_as_near_as_they_claim(kind: str, later: float) -> None:
    table = Table(800, seed=1)
    codes = make(kind, table)
    assert len(codes.misfits) < 20
    fitting = ~np.isin(np.arange(800), codes.misfits.array())
    for weights in WEIGHTS:
        question = Question(clustered(1, DIMENSION, seed=7)[0], weights, NOW + later, 10)
        exact = table.totals(question)
        found = codes.nearest(question, 50, None)
        assert found.aged
        held = found.totals[fitting[found.slots]]
        assert np.abs(held - exact[found.slots][fitting[found.slots]]).max() <= found.slack
        rest = np.setdiff1d(np.flatnonzero(fitting), found.slots)
        assert exact[rest].max() <= found.unseen + found.slack
        assert len(found.slots) == 50 and (np.diff(found.totals) <= 0).all()


@pytest.mark.parametrize("kind", ["flat", "listed"])
def test_another_half_life_leaves_recency_out_and_says_so(kind: str) -> None:
    table = Table(500, seed=2)
    codes = make(kind, table)
    other = RankingWeights(0.4, 0.1, 0.5, HALF_LIFE / 7)
    question = Question(clustered(1, DIMENSION, seed=7)[0], other, NOW, 10)
    found = codes.nearest(question, 30, None)
    assert not found.aged
    exact = table.totals(question) - 0.5 * recency(table.events, NOW, HALF_LIFE / 7)
    assert np.abs(found.totals - exact[found.slots]).max() <= found.slack
    asked_long_ago = Question(question.vector, RankingWeights(), NOW - 400 * HALF_LIFE, 10)
    assert not codes.nearest(asked_long_ago, 30, None).aged


@pytest.mark.parametrize("kind", ["flat", "listed"])
def test_only_allowed_rows_are_found_and_all_of_them_if_they_are_few(kind: str) -> None:
    codes = make(kind, Table(500, seed=3))
    question = Question(clustered(1, DIMENSION, seed=9)[0], RankingWeights(), NOW, 10)
    allowed = np.zeros(500, np.bool_)
    allowed[[3, 77, 250, 499]] = True
    found = codes.nearest(question, 30, allowed)
    assert sorted(found.slots.tolist()) == [3, 77, 250, 499]
    assert found.unseen == float("-inf")


@pytest.mark.parametrize("kind", ["flat", "listed"])
def test_what_the_codes_describe_badly_is_told(kind: str) -> None:
    """Vectors far outside the trained ranges, and events far after the others."""
    table = Table(600, seed=4)
    codes = make(kind, table)
    before = set(codes.misfits.array().tolist())
    odd = Table(6, seed=5)
    odd.vectors[:3] = np.eye(DIMENSION)[:3]
    odd.vectors[3:] = table.vectors[[10, 20, 30]]  # which lie near to others
    odd.events[:] = [NOW] * 3 + [NOW + 40 * DAY, NOW + 400 * DAY, NOW]
    codes.add(odd.rows(codes.coder))
    assert set(codes.misfits.array().tolist()) - before == {600, 601, 602, 603, 604}


@pytest.mark.parametrize("kind", ["flat", "listed"])
def test_random_removals_and_additions_keep_every_code_at_its_slot(kind: str) -> None:
    table = Table(300, seed=6)
    codes = make(kind, table)
    rows = list(table.rows(codes.coder))
    generator = np.random.default_rng(1)
    for step in range(200):
        if generator.random() < 0.7 and rows:
            slot = int(generator.integers(len(rows)))
            codes.remove(slot)
            last = rows.pop()
            if slot < len(rows):
                rows[slot] = last
        else:
            odd = Table(2, seed=100 + step, newest=NOW + step * DAY)
            codes.add(odd.rows(codes.coder))
            rows.extend(odd.rows(codes.coder))
        if step % 20 == 0:
            codes.check_integrity(np.asarray(rows, np.float32).reshape(len(rows), -1))
    while rows:
        codes.remove(0)
        rows[0] = rows[-1]
        rows.pop()
    codes.check_integrity(np.zeros((0, codes.coder.space.width), np.float32))
    codes.add(table.rows(codes.coder))
    codes.check_integrity(table.rows(codes.coder))


def test_one_vector_can_be_coded() -> None:
    table = Table(1, seed=8)
    for kind in ("flat", "listed"):
        found = make(kind, table).nearest(Question(table.vectors[0], RankingWeights(), NOW, 5), 5, None)
        assert found.slots.tolist() == [0]
