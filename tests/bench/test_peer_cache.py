"""What is asked of two caches, and how their answers are judged: alike."""

import numpy as np
import pytest

from precall.bench.coverage_corpus import RUNG, Exchange, Utterance
from precall.bench.peer_cache import _bar
from precall.bench.peer_cache_cases import CacheCase, CaseKind, Served, Verdict, case_texts, cases, denied
from precall.bench.peer_cache_report import outcome
from precall.bench.pushed_cache import AskedRung, PushedCache
from precall.engine.index.partition import Partition, PartitionSettings
from precall.scoring.coverage import Decision
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import indexed

HELD = CacheCase(CaseKind.HELD, "q", frozenset({1, 2}), (), Served(None, False))
DENIED = CacheCase(CaseKind.DENIED, "q", frozenset({1, 2}), (), Served(None, False))


@pytest.mark.parametrize(
    ("case", "served", "doubtful", "verdict"),
    [
        (HELD, Served((5, 2), True), False, Verdict.RIGHT),
        (HELD, Served((5, 6), True), False, Verdict.WRONG),
        (HELD, Served((5, 2), False), False, Verdict.MISSED),
        (HELD, Served((5, 2), False), True, Verdict.RIGHT),
        (HELD, Served(None, False), True, Verdict.MISSED),
        (DENIED, Served((5, 2), True), False, Verdict.WRONG),
        (DENIED, Served(None, False), True, Verdict.MISSED),
    ],
)
def test_a_cache_is_right_wrong_or_passes(case, served, doubtful, verdict):
    assert served.verdict(case, doubtful=doubtful) is verdict


def test_outcomes_are_per_hundred_questions():
    served = [Served((1,), True), Served((9,), True), Served(None, False), Served((1,), True)]
    result = outcome("any", 100, [HELD, HELD, HELD, DENIED], served, False)
    assert (result.right, result.wrong, result.missed) == (25.0, 50.0, 25.0)
    assert result.wrong_of_kind["denied"] == 100.0 and result.wrong_of_kind["held"] == pytest.approx(100 / 3)


def test_a_fitted_bar_lets_no_more_wrong_ones_pass_than_it_may():
    served = [Served((1,), True, 0.9), Served((9,), True, 0.8), Served((1,), True, 0.7)]
    assert _bar([HELD] * 3, served) == pytest.approx(0.9)
    assert _bar([HELD], [Served((1,), True, 0.4)]) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did Ana paint?", "What didn't Ana paint?"),
        ("When will they leave?", "When won't they leave?"),
        ("Zinc slows the virus.", "It is not true that zinc slows the virus."),
    ],
)
def test_a_denied_question_says_not(text, expected):
    assert denied(text) == expected


class World:
    """A rung of five memories of one word each, and a conversation about two of them."""

    WORDS = ("apples", "boats", "clouds", "drums", "eagles")

    def __init__(self) -> None:
        encoder = FakeEncoder()
        self.exchange = Exchange(
            (
                Utterance("did she like apples?", ("did she",), "locomo", (0,)),
                Utterance("did she like boats?", ("did she",), "locomo", (1,)),
            ),
            fitted=False,
        )
        generator = np.random.default_rng(0)
        texts = [*case_texts([self.exchange]), *self.WORDS, "drums and eagles"]
        rows = generator.standard_normal((len(texts), encoder.card.dimension)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        self.vectors = dict(zip(texts, rows, strict=True))
        self.partition = Partition(RUNG, encoder.card.dimension, PartitionSettings())
        self.partition.apply(
            added=[
                indexed(str(row), RUNG, vector=self.vectors[word], text=word)
                for row, word in enumerate(self.WORDS)
            ]
        )
        self.rung = AskedRung(
            self.partition,
            encoder.card,
            self.vectors,
            1_700_000_000.0,
            np.stack([self.vectors[word] for word in self.WORDS]),
        )


def test_a_cache_is_filled_by_what_is_heard_and_knows_what_brought_it():
    world = World()
    cache = PushedCache(world.rung, items=3)
    assert cache.lookup("did she like apples?").decision is Decision.MISS
    cache.hear("did she like apples?", partial=False)
    cache.cache.check_integrity()
    assert len(cache.held_ids) == 3
    assert set(cache.brought_by) == set(cache.held_ids)
    assert set(cache.brought_by.values()) == {"did she like apples?"}
    before = set(cache.held_ids)
    cache.hear("drums and eagles", partial=True)
    assert before - set(cache.held_ids), "something gave way"
    assert set(cache.brought_by) == set(cache.held_ids)


def test_cases_are_of_every_kind_and_name_what_is_held():
    world = World()
    asked = list(cases(world.rung, [world.exchange], items=5))
    kinds = [case.kind for case in asked]
    assert CaseKind.DENIED in kinds and CaseKind.HELD in kinds
    assert kinds.count(CaseKind.DENIED) == 2, "each question once"
    last = asked[-1]
    rows = {row for group in last.groups for row in group.rows}
    assert rows == set(range(5)), "all of the rung fits in"
