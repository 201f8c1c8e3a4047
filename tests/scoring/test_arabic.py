import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring import arabic


@pytest.mark.parametrize(
    ("written", "folded"),
    [("أَحْمَد", "احمد"), ("إسلام", "اسلام"), ("آمن", "امن"), ("مستشفى", "مستشفي"), ("مدرسة", "مدرسه"),
     ("مؤمن", "مومن"), ("سائل", "سايل"), ("كـــتاب", "كتاب"), ("ًٌ", "")],
)  # fmt: skip
def test_one_word_written_in_several_ways_becomes_one(written: str, folded: str) -> None:
    assert arabic.fold(written) == folded


@pytest.mark.parametrize(
    ("word", "stem"),
    [("الكتاب", "كتاب"), ("وكتاب", "كتاب"), ("بالكتاب", "كتاب"), ("بالالتزام", "التزام"),
     ("للكتاب", "كتاب"), ("كتابها", "كتاب"),
     ("مدرسات", "مدرس"), ("مدرسون", "مدرس"), ("مدرسه", "مدرس"), ("والمدرسين", "مدرس")],
)  # fmt: skip
def test_what_is_attached_goes(word: str, stem: str) -> None:
    assert arabic.stem(word) == stem


@pytest.mark.parametrize("word", ["وقت", "له", "ان", "الى"])
def test_two_letters_and_a_short_word_that_begins_with_and_are_left(word: str) -> None:
    assert len(arabic.stem(arabic.fold(word))) >= 2
    assert arabic.stem("وقت") == "وقت"


@given(st.text("ابتوهينلفكمىةأ", min_size=1, max_size=12))
def test_a_stem_is_part_of_its_word_and_seldom_shorter_than_two(word: str) -> None:
    folded = arabic.fold(word)
    stem = arabic.stem(folded)
    assert stem in folded and len(stem) >= min(len(folded), 2)
