"""Small values on their way in and out: ids, moments, spans, counts, enumerations, scopes."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from precall.engine.encoding.encoder import TokenUsage
from precall.engine.errors import InvalidInput
from precall.engine.memory.ladder import Ladder, Rung
from precall.proto import common_pb2
from precall.server.call import Stage

MAX_IDS: Final = 1_000
MAX_PAGE: Final = 1_000

EnumT = TypeVar("EnumT", bound=Enum)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND: Final = -62_135_596_800  # year 1
_LAST_SECOND: Final = 253_402_300_799  # year 9999
_UUID: Final = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


def uuid_text(value: str, field: str) -> str:
    """A UUID in its canonical form, letters in lower case. Raises InvalidInput."""
    canonical = value.lower()
    if not _UUID.fullmatch(canonical):
        raise InvalidInput(f"{field} must be a UUID like 123e4567-e89b-12d3-a456-426614174000")
    return canonical


def optional_uuid(value: str, field: str) -> str | None:
    """None for an empty field. Raises InvalidInput."""
    return uuid_text(value, field) if value else None


def uuid_list(values: Sequence[str], field: str) -> list[str]:
    """At least one id and at most ``MAX_IDS``. Raises InvalidInput."""
    if not values:
        raise InvalidInput(f"{field} is empty: name at least one")
    if len(values) > MAX_IDS:
        raise InvalidInput(f"{len(values)} {field}, at most {MAX_IDS} are taken: split the request")
    return [uuid_text(value, f"{field}[{position}]") for position, value in enumerate(values)]


def moment(value: Timestamp, field: str) -> datetime:
    """Raises InvalidInput outside the years 1 to 9999."""
    if not (_FIRST_SECOND <= value.seconds <= _LAST_SECOND and 0 <= value.nanos < 1_000_000_000):
        raise InvalidInput(f"{field} is no moment between the years 1 and 9999")
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def timestamp(value: datetime) -> Timestamp:
    """Exact to the microsecond."""
    microseconds = (value - _EPOCH) // timedelta(microseconds=1)
    return Timestamp(seconds=microseconds // 1_000_000, nanos=microseconds % 1_000_000 * 1000)


def timestamp_of(unix_seconds: float) -> Timestamp:
    """From Unix seconds, to the microsecond."""
    return timestamp(_EPOCH + timedelta(seconds=unix_seconds))


def duration(seconds: float) -> Duration:
    """To the nanosecond."""
    whole = math.floor(seconds)
    nanos = min(round((seconds - whole) * 1e9), 999_999_999)
    return Duration(seconds=whole, nanos=nanos)


def seconds_of(value: Duration) -> float:
    return value.seconds + value.nanos / 1e9


def count(value: int, field: str, *, default: int, maximum: int = MAX_PAGE) -> int:
    """0 means ``default``. Raises InvalidInput over ``maximum``."""
    if value > maximum:
        raise InvalidInput(f"{field} is {value}, at most {maximum}")
    return value or default


def enumerated(value: int, members: Mapping[int, EnumT], field: str) -> EnumT:
    """The engine's member for a wire value. Raises InvalidInput for a number that the contract lacks."""
    member = members.get(value)
    if member is None:
        raise InvalidInput(f"{field} has the unknown value {value}")
    return member


def rung_of(scope: common_pb2.Scope, ladder: Ladder) -> Rung:
    """Raises InvalidScope."""
    return ladder.rung(dict(scope.levels))


def scope_of(rung: Rung, ladder: Ladder) -> common_pb2.Scope:
    return common_pb2.Scope(levels=ladder.scope(rung))


def token_usage(usage: TokenUsage | None) -> common_pb2.TokenUsage:
    if usage is None:
        return common_pb2.TokenUsage()
    return common_pb2.TokenUsage(given=usage.given, used=usage.used, truncated=usage.truncated)


def stage_timings(stages: Iterable[Stage]) -> list[common_pb2.StageTiming]:
    return [common_pb2.StageTiming(stage=s.name, duration=duration(s.seconds)) for s in stages]
