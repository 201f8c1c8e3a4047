"""The documented score by brute force, in float64, one memory at a time; and what an answer must be by it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from precall.scoring.terms import analyze
from tests.properties.model import Model, Statement
from tests.properties.vectors import embed

TOLERANCE = 2e-5
"""Over what float32 and vectors rounded to float16 can differ from float64."""


@dataclass(frozen=True)
class Scored:
    """``place`` sorts as answers are ordered: total, the narrower rung, the later event, the id."""

    statement: Statement
    total: float

    @property
    def place(self) -> tuple[float, int, float, str]:
        said = self.statement.said
        return (-self.total, -said.rung.depth, -self.statement.event, said.id)


def scored(model: Model, corpus: Sequence[Statement], text: str, *, now: float, by: str) -> dict[str, Scored]:
    """Every memory of ``corpus`` by its id; how rare a word is counts over the whole of it. ``by``: the
    fingerprint of the model whose vectors are compared.
    """
    terms = set(analyze(text))
    query = embed(by, text).astype(np.float64)
    impacts = {each.id: _impacts(model, each) for each in corpus}
    rarity = {}
    for term in terms:
        holding = sum(term in weights for weights in impacts.values())
        rarity[term] = math.log(1 + (len(corpus) - holding + 0.5) / (holding + 0.5))
    answers = {}
    for each in corpus:
        vector = embed(by, each.words_for(by)).astype(np.float16).astype(np.float64)
        cosine = min(max(float(np.dot(vector, query)), 0.0), 1.0)
        weights = impacts[each.id]
        keyword = math.fsum(rarity[term] * weights[term] for term in sorted(terms) if term in weights)
        keyword /= keyword + 3.0 * max(len(terms), 1)
        age = max(now - each.event, 0.0)
        total = (
            0.7 * (0.3 * cosine + 0.7 * keyword)
            + 0.2 * each.said.importance
            + 0.1 * 0.5 ** (age / (30 * 86_400.0))
        )
        answers[each.id] = Scored(each, total)
    return answers


def check_answer(
    answer: Sequence[tuple[str, float]], allowed: Sequence[Scored], limit: int, what: object
) -> None:
    """``answer``: ids and totals as given; it must be the best ``limit`` of ``allowed``, in order."""
    best = {each.statement.id: each for each in allowed}
    names = [name for name, _ in answer]
    assert len(set(names)) == len(names), what
    assert set(names) <= set(best), (what, "not to be seen:", set(names) - set(best))
    assert len(names) == min(limit, len(best)), (what, names, sorted(best))
    for name, total in answer:
        assert abs(best[name].total - total) < TOLERANCE, (what, name, best[name].total, total)
    for first, second in pairwise(names):
        assert _may_precede(best[first], best[second]), (what, best[first], best[second])
    for left_out in set(best) - set(names):
        assert not names or _may_precede(best[names[-1]], best[left_out]), (what, best[left_out])


@dataclass
class Recall:
    """Over many searches: of the best results, how many were found. Those that tie count as one another.
    ``listed``: how many of the searches read lists.
    """

    best: int = 0
    found: int = 0
    listed: int = 0

    def note(self, answer: Sequence[tuple[str, float]], allowed: Sequence[Scored], limit: int) -> None:
        totals = sorted((each.total for each in allowed), reverse=True)[:limit]
        by_id = {each.statement.id: each.total for each in allowed}
        self.best += len(totals)
        if totals:
            self.found += sum(by_id[name] > totals[-1] - TOLERANCE for name, _ in answer)

    @property
    def share(self) -> float:
        return self.found / max(self.best, 1)


def _may_precede(first: Scored, second: Scored) -> bool:
    """Equal totals are ordered by rung, event and id; those that float32 cannot tell apart fall anyhow."""
    if first.total == second.total:
        return first.place < second.place
    return first.total > second.total - TOLERANCE


def _impacts(model: Model, each: Statement) -> dict[str, float]:
    own = _words(each)
    frequencies: dict[str, float] = dict(Counter(own))
    length = float(len(own))
    before = model.turns_before(each) if each.current and each.is_turn else []
    for share, turn in zip((0.7, 0.5), before, strict=False):
        words = _words(turn)
        length += share * len(words)
        for word in words:
            frequencies[word] = frequencies.get(word, 0.0) + share
    norm = 0.9 * (1 - 0.25 + 0.25 * length / 16)
    return {word: count * 1.9 / (count + norm) for word, count in frequencies.items()}


def _words(each: Statement) -> list[str]:
    return analyze(" ".join((each.said.text, *each.said.questions)))
