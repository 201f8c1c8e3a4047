"""Cards of cut models, and fingerprints."""

from dataclasses import replace

import pytest

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.errors import InvalidInput, NotSupported

CARD = ModelCard("some", "1", "0" * 64, dimension=64, max_tokens=8, pooling=Pooling.CLS)
STEPS = replace(CARD, matryoshka_dimensions=(8, 16, 64))
RANGE = replace(CARD, matryoshka_dimensions=tuple(range(32, 65)))


def test_a_cut_card_is_that_of_the_smaller_model() -> None:
    assert STEPS.cut_to(16) == replace(STEPS, dimension=16, matryoshka_dimensions=(8, 16))
    assert RANGE.cut_to(40).cut_to(33) == RANGE.cut_to(33)
    assert RANGE.cut_to(33).matryoshka_dimensions == (32, 33)


def test_each_length_is_a_space_of_its_own() -> None:
    fingerprints = {RANGE.cut_to(dimension).fingerprint for dimension in range(32, 65)}
    assert len(fingerprints) == 33
    assert RANGE.cut_to(64).fingerprint == RANGE.fingerprint


def test_the_scripts_that_it_reads_change_no_vector_and_no_fingerprint() -> None:
    assert replace(CARD, scripts=("latin",)).fingerprint == CARD.fingerprint
    assert replace(CARD, pooling=Pooling.MEAN).fingerprint != CARD.fingerprint


@pytest.mark.parametrize("card", [CARD, STEPS, RANGE])
def test_its_own_length_is_no_cut(card: ModelCard) -> None:
    assert card.cut_to(64) is card


@pytest.mark.parametrize(
    ("card", "dimension", "allowed"),
    [
        (STEPS, 32, "8, 16 or 64"),
        (STEPS, 0, "8, 16 or 64"),
        (RANGE, 31, "any from 32 to 64"),
        (RANGE, 65, "any from 32 to 64"),
        (RANGE, -1, "any from 32 to 64"),
        (RANGE.cut_to(32), 31, "takes 32"),
        (RANGE.cut_to(33), 31, "32 or 33"),
    ],
)
def test_a_length_that_the_model_was_not_trained_for_is_refused_with_those_it_was(
    card: ModelCard, dimension: int, allowed: str
) -> None:
    with pytest.raises(InvalidInput, match=allowed):
        card.cut_to(dimension)


def test_a_model_that_cannot_be_cut_says_so() -> None:
    with pytest.raises(NotSupported, match="leave the dimension unset"):
        CARD.cut_to(32)
