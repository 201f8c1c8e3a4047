import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring.romanised_hindi import MARKS
from precall.scoring.terms import STOP_WORDS, analyze


def test_drops_grammar_and_stems_content() -> None:
    assert analyze("Where did Caroline travel in the summers?") == ["carolin", "travel", "summer"]


@pytest.mark.parametrize("text", ["The Who", "kya hai", "में क्या है", "من هو"])
def test_a_text_of_stop_words_keeps_them(text: str) -> None:
    assert analyze(text) == text.casefold().split()


def test_unspaced_scripts_become_character_pairs() -> None:
    assert analyze("東京タワー") == ["東京", "京タ", "タワ", "ワー"]
    assert set(analyze("東京")) <= set(analyze("私は東京に住む"))


def test_words_of_other_scripts_stay_whole() -> None:
    assert analyze("தமிழ் தேநீர்") == ["தமிழ்", "தேநீர்"]
    assert analyze("Привет, мир") == ["привет", "мир"]


def test_hindi_loses_grammar_and_endings() -> None:
    assert analyze("पुणे का मौसम।") == ["पुण", "मौसम"]
    assert set(analyze("लड़कियों की किताबें")) == set(analyze("लड़की किताब"))


def test_arabic_loses_grammar_articles_and_endings() -> None:
    assert analyze("متى موعد الرحلة إلى بونة؟") == ["موعد", "رحل", "بون"]
    assert analyze("والمهندسون") == analyze("مهندس")


def test_scripts_may_stand_beside_each_other() -> None:
    assert analyze("Pune में meetings, 東京") == ["pune", "meet", "東京"]


def test_digits_of_every_script_are_the_same_number() -> None:
    assert analyze("२०२६") == analyze("٢٠٢٦") == analyze("2026") == ["2026"]


def test_a_joiner_parts_no_indic_word_and_parts_others() -> None:
    assert analyze("क्\u200dया बात") == analyze("क्या बात") == ["बात"]
    assert analyze("a1\u200db2") == ["a1", "b2"]
    assert analyze("👩\u200d🔬 lab") == ["lab"]


def test_marks_above_a_letter_part_no_arabic_word() -> None:
    assert analyze("رَحْمٰن") == analyze("رحمن")
    assert analyze("ـــ ًٌ كتاب") == ["كتاب"], "a stretch and marks alone are no term"


def test_romanised_hindi_loses_its_grammar_and_keeps_its_negations() -> None:
    assert analyze("mujhe West part me restaurant nahi chahiye") == ["west", "part", "restaur", "nahi"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Na channels of KO mice, pKa 7", {"na", "ko"}),  # SciFact's signs
        ("Meri ordered chow mein", {"meri", "mein"}),
        ("a mere hue; to hone a tum", {"mere", "hue", "hone", "tum"}),
        ("koi ponds and the main road", {"koi", "main"}),
    ],
)
def test_words_that_english_has_too_are_kept_in_english(text: str, kept: set[str]) -> None:
    assert kept <= set(analyze(text))


def test_no_mark_is_an_english_stop_word() -> None:
    assert not MARKS & STOP_WORDS


@given(st.text(max_size=200))
def test_any_text_is_analysed_without_blank_terms(text: str) -> None:
    terms = analyze(text)
    assert all(term.strip() for term in terms)
    assert analyze(text) == terms
    assert not STOP_WORDS.intersection(terms) or STOP_WORDS.issuperset(
        word for word in terms if word.isascii()
    )
