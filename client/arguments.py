"""What callers pass, checked for the types and the forms that the wire can carry.

Each check returns the value and raises InvalidInput naming the argument. An annotation binds nobody at run
time, and what protobuf says of a wrong value names neither the argument nor the remedy.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Final

from precall.client.errors import InvalidInput

MAX_VERSION: Final = 2**64 - 1
MAX_PAGE_SIZE: Final = 2**32 - 1
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def is_well_formed(value: str) -> bool:
    """No lone surrogate in it: it can be encoded."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: object, name: str) -> str:
    """A string of well-formed Unicode; it may be empty."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string, not {type(value).__name__}")
    if not is_well_formed(value):
        raise InvalidInput(f"{name} holds a lone surrogate: send well-formed Unicode")
    return value


def texts(values: object, name: str) -> tuple[str, ...]:
    """Any iterable of strings but a string, which would be taken for its characters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} must be a list of strings, not {type(values).__name__}")
    return tuple(text(value, f"{name}[{position}]") for position, value in enumerate(values))


def text_map(values: object, name: str) -> dict[str, str]:
    """Strings by strings."""
    if not isinstance(values, Mapping):
        raise InvalidInput(f"{name} must be a mapping of strings to strings, not {type(values).__name__}")
    return {text(key, f"a key of {name}"): text(value, f"{name}[{key!r}]") for key, value in values.items()}


def uuid_text(value: object, name: str) -> str:
    """A UUID's usual form, in any case of letters."""
    if not _UUID.fullmatch(text(value, name)):
        raise InvalidInput(f"{name} must be a UUID like 123e4567-e89b-12d3-a456-426614174000")
    return str(value)


def request_id(value: object) -> str:
    """The caller's, or a new one for None (or an empty one)."""
    return uuid_text(value, "request_id") if value else str(uuid.uuid4())


def uuid_texts(values: object, name: str) -> tuple[str, ...]:
    return tuple(
        uuid_text(value, f"{name}[{position}]") for position, value in enumerate(texts(values, name))
    )


def whole_number(value: object, name: str, *, minimum: int, maximum: int) -> int:
    """``minimum`` and ``maximum`` are allowed."""
    if not isinstance(value, Integral):
        raise InvalidInput(f"{name} must be a whole number, not {type(value).__name__}")
    whole = int(value)
    if not minimum <= whole <= maximum:
        raise InvalidInput(f"{name} is {whole}, it must lie between {minimum} and {maximum}")
    return whole


def version(value: object, name: str = "min_version") -> int:
    return whole_number(value, name, minimum=0, maximum=MAX_VERSION)


def number(value: object, name: str) -> float:
    """A float or a whole number; NaN and infinity are the caller's to judge."""
    if not isinstance(value, Real):
        raise InvalidInput(f"{name} must be a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(f"{name} is too large") from None
