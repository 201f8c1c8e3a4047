import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from precall.scoring import keyword
from precall.scoring.keyword import KeywordIndex, Statistics, document_impacts, inverse_document_frequency


def test_scores_follow_the_formula() -> None:
    documents = [["pune", "trip", "trip"], ["pune"], ["dog"]]
    index = KeywordIndex()
    for terms in documents:
        index.add(document_impacts(terms))
    scores = index.scores(index.statistics().weights(["trip", "pune", "absent"]))
    expected = []
    for terms in documents:
        norm = keyword.K1 * (1 - keyword.B + keyword.B * len(terms) / keyword.REFERENCE_LENGTH)
        total = 0.0
        for term in ("trip", "pune"):
            frequency = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - frequency + 0.5) / (frequency + 0.5))
            count = terms.count(term)
            total += idf * count * (keyword.K1 + 1) / (count + norm)
        expected.append(total)
    assert scores == pytest.approx(expected, rel=1e-5)


def test_what_was_said_before_counts_less_and_only_so_far_back() -> None:
    impacts = document_impacts(["yes"], [["trip"], ["visa"], ["ferry"]])
    assert sorted(impacts, key=impacts.__getitem__, reverse=True) == ["yes", "trip", "visa"]
    length = 1 + 0.7 + 0.5
    norm = keyword.K1 * (1 - keyword.B + keyword.B * length / keyword.REFERENCE_LENGTH)
    for term, frequency in (("yes", 1.0), ("trip", 0.7), ("visa", 0.5)):
        assert impacts[term] == pytest.approx(frequency * (keyword.K1 + 1) / (frequency + norm))
    again = document_impacts(["trip"], [["trip", "trip"]])
    assert again["trip"] > document_impacts(["trip", "trip"])["trip"], "own words and earlier ones add up"


def test_a_repeated_query_term_counts_once() -> None:
    statistics = Statistics(3, {"pune": 1})
    assert statistics.weights(["pune", "pune"]) == statistics.weights(["pune"])


def test_an_idf_is_positive_even_for_a_term_in_every_document() -> None:
    assert inverse_document_frequency(10, 10) > 0


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=6), min_size=2, max_size=8))
def test_statistics_of_parts_sum_to_those_of_the_whole(documents: list[list[str]]) -> None:
    whole, left, right = KeywordIndex(), KeywordIndex(), KeywordIndex()
    for position, terms in enumerate(documents):
        whole.add(document_impacts(terms))
        (left if position % 2 else right).add(document_impacts(terms))
    terms = list("abcde")
    summed = Statistics.sum([left.statistics(terms), right.statistics(terms)], terms)
    assert summed.weights(terms) == whole.statistics(terms).weights(terms)


class KeywordIndexMachine(RuleBasedStateMachine):
    """The index against a list of documents that is searched by brute force."""

    def __init__(self) -> None:
        super().__init__()
        self.index = KeywordIndex()
        self.documents: list[dict[str, float]] = []

    @rule(terms=st.lists(st.sampled_from(["pune", "trip", "dog", "cat", "東京"]), max_size=6))
    def add(self, terms: list[str]) -> None:
        impacts = document_impacts(terms)
        assert self.index.add(impacts) == len(self.documents)
        self.documents.append(impacts)

    @precondition(lambda self: self.documents)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(0, len(self.documents) - 1))
        self.index.remove(slot)
        last = self.documents.pop()
        if slot < len(self.documents):
            self.documents[slot] = last

    @invariant()
    def agrees_with_brute_force(self) -> None:
        self.index.check_integrity()
        weights = {"pune": 1.5, "dog": 0.5, "absent": 9.0}
        expected = [sum(weights.get(t, 0) * i for t, i in impacts.items()) for impacts in self.documents]
        assert np.allclose(self.index.scores(weights), expected, atol=1e-5)
        assert [self.index.impacts(slot) for slot in range(len(self.documents))] == self.documents


TestKeywordIndex = KeywordIndexMachine.TestCase
