from hypothesis import given
from hypothesis import strategies as st

from precall.scoring.terms import STOP_WORDS, analyze


def test_drops_grammar_and_stems_content() -> None:
    assert analyze("Where did Caroline travel in the summers?") == ["carolin", "travel", "summer"]


def test_a_text_of_stop_words_keeps_them() -> None:
    assert analyze("The Who") == ["the", "who"]


def test_unspaced_scripts_become_character_pairs() -> None:
    assert analyze("東京タワー") == ["東京", "京タ", "タワ", "ワー"]
    assert set(analyze("東京")) <= set(analyze("私は東京に住む"))


def test_indic_words_stay_whole() -> None:
    assert analyze("पुणे का मौसम।") == ["पुणे", "का", "मौसम"]


def test_compatibility_forms_and_case_are_folded() -> None:
    assert analyze("\uff23\uff21\uff26\uff25") == analyze("cafe")  # full width
    assert analyze("STRASSE") == analyze("straße")


@given(st.text(max_size=200))
def test_any_text_is_analysed_without_blank_terms(text: str) -> None:
    terms = analyze(text)
    assert all(term.strip() for term in terms)
    assert analyze(text) == terms
    assert all(term not in STOP_WORDS for term in terms) or all(term in STOP_WORDS for term in terms) or terms
