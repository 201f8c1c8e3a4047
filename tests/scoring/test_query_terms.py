import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring.query_terms import QueryTerms
from precall.scoring.scripts import script_of
from precall.scoring.terms import analyze


def test_terms_come_once_in_reading_order_each_with_its_script() -> None:
    query = QueryTerms.of("trains to पुणे, trains in 2026")
    assert query.terms == ("train", "पुण", "2026")
    assert query.scripts == ("latin", "devanagari", None)


def test_romanised_hindi_is_hindi() -> None:
    query = QueryTerms.of("mujhe Pune ki train chahiye 東京")
    assert query.terms == ("pune", "train", "東京")
    assert query.scripts == ("devanagari", "devanagari", "cjk")
    assert query.share_outside(["latin", "cjk"]) == 2 / 3
    assert query.share_outside(["devanagari", "cjk"]) == 0


def test_a_query_without_terms_is_of_every_script() -> None:
    for text in ("", "?!", "12"):
        assert QueryTerms.of(text).share_outside(["latin"]) == 0


@pytest.mark.parametrize(
    ("term", "script"),
    [("pune", "latin"), ("naïve", "latin"), ("3d", "latin"), ("पुण", "devanagari"), ("كتب", "arabic"),
     ("京都", "cjk"), ("タワ", "katakana"), ("서울", "hangul"), ("мир", "cyrillic"),
     ("2026", None), ("_", None)],
)  # fmt: skip
def test_scripts_are_named_for_their_letters(term: str, script: str | None) -> None:
    assert script_of(term) == script


@given(st.text(max_size=120))
def test_a_query_has_the_terms_that_a_document_of_the_same_words_has(text: str) -> None:
    query = QueryTerms.of(text)
    assert query.terms == tuple(dict.fromkeys(analyze(text)))
    assert len(query.scripts) == len(query.terms)
