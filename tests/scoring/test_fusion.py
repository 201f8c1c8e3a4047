import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.scoring.fusion import (
    HALF_PER_TERM,
    KEYWORD_SHARE,
    KEYWORD_SHARE_UNREAD,
    Fusion,
    keyword_share,
)
from precall.scoring.query_terms import QueryTerms

LATIN = ("latin",)


def share(text: str, scripts: tuple[str, ...] = LATIN) -> float:
    return keyword_share(QueryTerms.of(text), scripts)


def test_the_half_grows_with_the_distinct_terms() -> None:
    assert Fusion.of(["pune", "trip", "pune"]).half == 2 * HALF_PER_TERM
    assert Fusion.of(["pune"]) == Fusion.of([]) == Fusion(HALF_PER_TERM, KEYWORD_SHARE)


def test_a_score_of_the_half_saturates_to_one_half() -> None:
    fusion = Fusion.of(["a", "b", "c"])
    saturated = fusion.saturate(np.array([0, fusion.half, 1e9], np.float32))
    assert saturated.tolist() == pytest.approx([0, 0.5, 1])
    assert saturated.dtype == np.float32


def test_relevance_divides_itself_between_the_legs_and_cuts_cosines() -> None:
    fusion = Fusion(3.0, 0.8)
    dense, keyword = np.array([0.5, -1, 2], np.float32), np.array([0.25, 0.5, 0], np.float32)
    assert fusion.relevance(dense, keyword).tolist() == pytest.approx([0.1 + 0.2, 0.4, 0.2])


@pytest.mark.parametrize("text", ["when is the trip to Pune", "", "the who", "2026", "!", "12 or 13"])
def test_what_the_encoder_reads_leaves_the_share_alone(text: str) -> None:
    assert share(text) == KEYWORD_SHARE


@pytest.mark.parametrize("text", ["पुणे का मौसम", "متى موعد الرحلة", "東京タワー", "mujhe train kab leni hai"])
def test_what_the_encoder_does_not_read_is_left_to_the_words(text: str) -> None:
    assert share(text) == pytest.approx(KEYWORD_SHARE_UNREAD)
    assert share(text, ()) == KEYWORD_SHARE, "a model of all scripts reads it"


def test_a_query_in_two_scripts_lies_between_and_numbers_count_on_neither_side() -> None:
    half_way = (KEYWORD_SHARE + KEYWORD_SHARE_UNREAD) / 2
    assert share("Pune मौसम") == share("Pune मौसम 2026 १२") == pytest.approx(half_way)


@given(st.text(max_size=80), st.lists(st.sampled_from(["latin", "devanagari", "cjk"]), max_size=3))
def test_the_share_of_any_text_lies_between_the_two(text: str, scripts: list[str]) -> None:
    assert KEYWORD_SHARE <= share(text, tuple(scripts)) <= KEYWORD_SHARE_UNREAD


@pytest.mark.parametrize(("half", "keyword"), [(0.0, 0.5), (float("nan"), 0.5), (1.0, 1.1), (1.0, -0.1)])
def test_a_fusion_outside_its_range_is_refused(half: float, keyword: float) -> None:
    with pytest.raises(ValueError, match="must"):
        Fusion(half, keyword)
