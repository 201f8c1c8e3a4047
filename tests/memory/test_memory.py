"""Moments must survive the file to the microsecond, before 1970 as well as after 2038."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.errors import InvalidInput
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import NewMemory, Source, from_unix_microseconds, to_unix_microseconds

ZONES = st.integers(-12 * 60, 12 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES))
def test_any_moment_comes_back_the_same(moment: datetime) -> None:
    assert from_unix_microseconds(to_unix_microseconds(moment)) == moment


def test_half_a_second_before_1970_is_negative() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
    assert to_unix_microseconds(moment) == -500_000
    assert from_unix_microseconds(-500_000) == moment


def said(**fields: Any) -> NewMemory:
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    return NewMemory(
        id="m", rung=Rung(("acme",)), **({"text": "t", "event_time": moment, "said_time": moment} | fields)
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": "x" * 100_001}, "text has 100001 characters, at most 100000"),
        ({"key": "x" * 513}, "key has 513 characters, at most 512"),
        ({"questions": ("?",) * 33}, "33 questions, at most 32"),
        ({"questions": ("ok", "x" * 2_001)}, r"questions\[1\] has 2001 characters, at most 2000"),
        ({"questions": ("x" * 1_601,) * 10}, "16010 characters in all, at most 16000"),
        ({"metadata": {"k": "x" * 4_096}}, "metadata is over 4096"),
        ({"source": Source(conversation_id="x" * 513)}, "source.conversation_id has 513 .* at most 512"),
        ({"source": Source(turn_id="x" * 513)}, "source.turn_id has 513 .* at most 512"),
        ({"source": Source(uri="x" * 513)}, "source.uri has 513 .* at most 512"),
    ],
)
def test_every_field_has_a_limit_and_says_which(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        said(**fields)


def test_a_field_at_its_limit_is_taken() -> None:
    questions = ("x" * 2_000,) * 8
    memory = said(questions=questions, source=Source("c" * 512, "t" * 512, "u" * 512), key="k" * 512)
    assert memory.questions == questions
