"""When a process stops trusting its caches, and when it does again."""

import pytest

from precall.client.strictness import WINDOW, Strictness


def noted(strictness: Strictness, *, right: int = 0, wrong: int = 0) -> Strictness:
    for _ in range(right):
        strictness.note(wrong=False)
    for _ in range(wrong):
        strictness.note(wrong=True)
    return strictness


def test_a_few_wrong_ones_are_borne_and_one_more_is_not(caplog: pytest.LogCaptureFixture) -> None:
    strictness = noted(Strictness(0.02), wrong=4)
    assert not strictness.strict and not caplog.records, "four say nothing about 200"
    noted(strictness, wrong=1)
    assert strictness.strict and "5 of the last 5" in caplog.text
    assert (strictness.checked, strictness.wrong) == (5, 5)


def test_it_recovers_when_half_of_what_is_borne_is_left() -> None:
    strictness = noted(Strictness(0.02), wrong=6)
    noted(strictness, right=WINDOW - 6)
    assert strictness.strict, "all six are still among the last"
    noted(strictness, right=3)
    assert strictness.strict, "three are left: it must not waver around the bar"
    noted(strictness, right=1)
    assert not strictness.strict
    noted(strictness, wrong=2)
    assert not strictness.strict
    noted(strictness, wrong=3)
    assert strictness.strict


def test_wrong_ones_long_ago_do_not_add_up() -> None:
    strictness = Strictness(0.02)
    for _ in range(20):
        noted(strictness, right=WINDOW - 4, wrong=4)
        assert not strictness.strict
    assert strictness.wrong == 80


def test_a_bar_of_zero_bears_nothing_and_a_bar_of_one_everything() -> None:
    assert noted(Strictness(0.0), wrong=1).strict
    assert not noted(Strictness(1.0), wrong=WINDOW).strict
