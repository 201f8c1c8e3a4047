import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precall.scoring.keyword import KeywordIndex
from precall.scoring.vocabulary import LEAST_BYTES, MOST_BYTES, Vocabulary


@settings(max_examples=50, deadline=None)
@given(terms=st.sets(st.text(max_size=12), max_size=60), later=st.sets(st.text(max_size=12), max_size=60))
def test_every_term_is_named_also_after_a_journey(terms: set[str], later: set[str]) -> None:
    vocabulary = Vocabulary.of(terms)
    vocabulary.update(later)
    arrived = Vocabulary(vocabulary.data)
    assert all(term in arrived for term in terms | later)


@pytest.mark.parametrize("count", [2_000, 8_192, 60_000])
def test_few_absent_terms_are_named(count: int) -> None:
    vocabulary = Vocabulary.of([f"word{number}" for number in range(count)])
    assert len(vocabulary.data) <= 2 * count
    named = sum(f"absent{number}" in vocabulary for number in range(4_000))
    assert named <= 0.03 * 4_000


def test_the_size_is_bounded() -> None:
    assert len(Vocabulary.of(()).data) == LEAST_BYTES
    assert len(Vocabulary.of([str(number) for number in range(200_000)]).data) == MOST_BYTES


@pytest.mark.parametrize("size", [0, 1, 255, 300, 2 * MOST_BYTES])
def test_what_is_no_vocabulary_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        Vocabulary(bytes(size))


def test_nothing_is_named_by_an_empty_one() -> None:
    assert "pune" not in Vocabulary.of(())


def test_an_index_names_what_it_holds_and_forgets_what_it_lost() -> None:
    index = KeywordIndex()
    index.add({"pune": 1.0, "train": 1.0})
    assert "pune" in index.vocabulary() and "goa" not in index.vocabulary()
    index.add({"goa": 1.0})
    index.extend([["tea"]], np.ones(1, np.float32))
    assert all(term in index.vocabulary() for term in ("pune", "train", "goa", "tea"))
    index.remove(0)
    assert "pune" not in index.vocabulary() and "goa" in index.vocabulary()
    index.check_integrity()


def test_an_index_that_outgrew_its_vocabulary_makes_a_sharper_one() -> None:
    index = KeywordIndex()
    index.add({"pune": 1.0})
    assert len(index.vocabulary().data) == LEAST_BYTES
    index.add({f"word{number}": 1.0 for number in range(4_000)})
    vocabulary = index.vocabulary()
    assert len(vocabulary.data) >= 4_000 and "word3999" in vocabulary
