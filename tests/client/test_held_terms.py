"""The words of a cache beside the server's index: the same scores, whatever came and went."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from precall.client import held_terms
from precall.client.held_terms import HeldTerms
from precall.scoring.keyword import KeywordIndex

TERMS = st.sampled_from([f"t{number}" for number in range(12)])
WEIGHTS = st.floats(0.125, 2.0, width=32)
DOCUMENTS = st.lists(st.dictionaries(TERMS, WEIGHTS, max_size=5), max_size=6)


def extend(held: HeldTerms, documents: list[Mapping[str, float]]) -> None:
    weights = [weight for document in documents for weight in document.values()]
    held.extend([list(document) for document in documents], np.array(weights, np.float32))


class HeldTermsMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.held, self.index = HeldTerms(), KeywordIndex()

    @rule(documents=DOCUMENTS)
    def come(self, documents: list[Mapping[str, float]]) -> None:
        extend(self.held, documents)
        for document in documents:
            self.index.add(document)

    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        if self.index.documents:
            slot = data.draw(st.integers(0, self.index.documents - 1))
            self.held.remove(slot)
            self.index.remove(slot)

    @rule()
    def squeeze(self) -> None:
        self.held._squeeze()

    @rule(asked=st.dictionaries(TERMS, st.floats(0.125, 9.0), max_size=4))
    def search(self, asked: Mapping[str, float]) -> None:
        assert self.held.scores(asked).tolist() == self.index.scores(asked).tolist()

    @invariant()
    def agree(self) -> None:
        self.held.check_integrity()
        assert self.held.documents == self.index.documents
        for slot in range(self.index.documents):
            assert self.held.impacts(slot) == self.index.impacts(slot)
            assert tuple(self.held.terms(slot)) == self.index.terms(slot)


HeldTermsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestHeldTerms = HeldTermsMachine.TestCase


def test_what_has_gone_is_squeezed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that goes on for hours has seen every word of the rung: it keeps those of what it holds."""
    monkeypatch.setattr(held_terms, "_LEAST_GONE", 8)
    held = HeldTerms()
    for number in range(1_000):
        extend(held, [{f"word{number}": 1.0, "common": 1.0}])
        if number >= 4:
            held.remove(0)
        held.check_integrity()
        assert len(held._words) <= 16 and held._used <= 32
