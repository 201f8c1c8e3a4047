"""Moments must survive the file to the microsecond, before 1970 as well as after 2038."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from precall.engine.memory.memory import from_unix_microseconds, to_unix_microseconds

ZONES = st.integers(-12 * 60, 12 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES))
def test_any_moment_comes_back_the_same(moment: datetime) -> None:
    assert from_unix_microseconds(to_unix_microseconds(moment)) == moment


def test_half_a_second_before_1970_is_negative() -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
    assert to_unix_microseconds(moment) == -500_000
    assert from_unix_microseconds(-500_000) == moment
