import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring import devanagari


@pytest.mark.parametrize(
    ("one", "other"),
    [("हिन्दी", "हिंदी"), ("सम्बन्ध", "संबंध"), ("चाँद", "चांद"), ("ज़मीन", "जमीन"), ("डॉक्टर", "डाक्टर"),
     ("क्\u200dया", "क्या"), ("पङ्कज", "पंकज"), ("मॅच", "मेच")],
)  # fmt: skip
def test_spellings_of_one_word_meet(one: str, other: str) -> None:
    assert devanagari.fold(one) == devanagari.fold(other)


@pytest.mark.parametrize(
    ("forms", "stem"),
    [(("लड़का", "लड़के", "लड़कों", "लड़की", "लड़कियां", "लड़कियों"), "लडक"),
     (("मालाओं", "माला"), "माल"), (("दिन", "दिनों"), "दिन")],
)  # fmt: skip
def test_forms_of_one_word_meet(forms: tuple[str, ...], stem: str) -> None:
    assert {devanagari.stem(devanagari.fold(form)) for form in forms} == {stem}


def test_two_characters_are_left() -> None:
    assert devanagari.stem("का") == "का"


@given(st.text("कखगनमयर\u093e\u093f\u0940\u0947\u094b\u0902\u094d", min_size=1, max_size=12))
def test_a_stem_begins_its_word(word: str) -> None:
    folded = devanagari.fold(word)
    stem = devanagari.stem(folded)
    assert folded.startswith(stem) and len(stem) >= min(len(folded), 2)
