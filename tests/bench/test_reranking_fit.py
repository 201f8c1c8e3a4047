"""The fit of the reranker's share: its rules, what they make of a ranking, and which one is chosen."""

from pathlib import Path

import numpy as np
import pytest

from precall.bench.quality import encode
from precall.bench.quality_methods import score_fast
from precall.bench.quality_sets import LabelledQuery, unconnected
from precall.bench.quality_vectors import VectorCache
from precall.bench.reranking import Figures, JudgedSet, ShareRule, best_rule, judge_candidates
from tests.fakes.encoder import FakeEncoder
from tests.fakes.reranker import WordReranker

SHORT, LONG = 2.0, 12.0


def test_a_share_falls_with_the_terms_beyond_few() -> None:
    terms = np.array([[0], [3], [6], [30]], np.float32)
    assert ShareRule(0.7, 3, 2.0).of(terms)[:, 0] == pytest.approx([0.7, 0.7, 0.7 / 4, 0.7 / 100])
    assert ShareRule(0.7, 3, 0.0).of(terms)[:, 0] == pytest.approx([0.7] * 4)


def judged() -> JudgedSet:
    """A short query that the reranker answers rightly and FAST wrongly, and a long one where it is the other
    way round.
    """
    labelled = unconnected("made up", ["a", "b", "c"], [LabelledQuery("q", (1,)), LabelledQuery("r", (2,))])
    return JudgedSet(
        labelled,
        candidates=np.array([[0, 1], [2, 0]]),
        fast=np.array([[0.6, 0.5], [0.6, 0.5]], np.float32),
        judged=np.array([[0.1, 0.9], [0.1, 0.9]], np.float32),
        terms=np.array([[SHORT], [LONG]], np.float32),
        shipped=np.array([[1.0], [0.0]], np.float32),
    )


def test_scores_are_mixed_by_the_share_and_what_was_not_read_comes_last() -> None:
    second = 1 / np.log2(3)
    each = judged()
    assert each.measures(np.zeros((2, 1), np.float32)).ndcg_10 == pytest.approx([second, 1.0])
    assert each.measures(np.ones((2, 1), np.float32)).ndcg_10 == pytest.approx([1.0, second])
    assert each.measures(each.shipped).ndcg_10 == pytest.approx([1.0, 1.0])
    assert Figures.of([each], None).ndcg_10 == pytest.approx(1.0)


def test_the_rule_that_serves_every_set_is_chosen() -> None:
    chosen = best_rule([[judged()], [judged(), judged()]])
    assert Figures.of([judged()], chosen) == Figures.of([judged()], None)
    assert chosen.power > 0


def test_what_is_judged_are_the_candidates_of_fast(tmp_path: Path) -> None:
    texts = [f"tea number {n}" for n in range(120)]
    labelled = unconnected("made up", texts, [LabelledQuery("tea number 7", (7,))])
    encoded = encode(labelled, VectorCache(FakeEncoder(), tmp_path))
    made = judge_candidates(encoded, WordReranker())
    fast = score_fast(encoded)
    assert made.candidates.shape == (1, 100) and made.candidates[0, 0] == 7
    assert made.fast.tolist() == [sorted(fast[0].tolist(), reverse=True)[:100]]
    assert made.judged.shape == (1, 100) and made.terms.tolist() == [[3.0]]
    assert made.shipped.tolist() == [[0.5]]
