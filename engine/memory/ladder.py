"""The ladder of named levels that a tenant's memories stand on, and the rungs of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from precall.engine.errors import InvalidInput, InvalidScope

DEFAULT_LEVELS: Final = ("customer", "user")
MAX_LEVELS: Final = 8
MAX_VALUE_CHARACTERS: Final = 256
_LEVEL_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True, order=True)
class Rung:
    """A place on the ladder: the values of its levels from the top, e.g. ``("acme", "dana")``."""

    values: tuple[str, ...]

    @property
    def depth(self) -> int:
        """1 for the top level; the deeper, the narrower."""
        return len(self.values)

    def is_visible_from(self, reader: "Rung") -> bool:
        """A reader sees its own rung and the ones above it: never below, never sideways."""
        return self.values == reader.values[: self.depth]

    def is_in_line_with(self, other: "Rung") -> bool:
        """Whether one of the two is the other or stands above it."""
        return self.is_visible_from(other) or other.is_visible_from(self)

    def lineage(self) -> tuple["Rung", ...]:
        """The rung itself and the ones above it, the narrowest first."""
        return tuple(Rung(self.values[:depth]) for depth in range(self.depth, 0, -1))


@dataclass(frozen=True, slots=True)
class Ladder:
    """A tenant's level names from the top, fixed when the tenant is created."""

    levels: tuple[str, ...] = DEFAULT_LEVELS

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise InvalidInput(f"a ladder has 1 to {MAX_LEVELS} levels, this one has {len(self.levels)}")
        if len(set(self.levels)) != len(self.levels):
            raise InvalidInput(f"the levels of a ladder must differ: {', '.join(self.levels)}")
        for level in self.levels:
            if not _LEVEL_NAME.fullmatch(level):
                raise InvalidInput(
                    f"{level!r} is no level name: use a lower-case letter, then letters, digits or '_'"
                )

    def rung(self, scope: Mapping[str, str]) -> Rung:
        """The rung that a scope names. Raises InvalidScope when a level is missing, unknown or empty."""
        unknown = [level for level in scope if level not in self.levels]
        if unknown:
            raise InvalidScope(
                f"unknown level {unknown[0]!r}: this tenant's ladder is {' > '.join(self.levels)}"
            )
        if not scope:
            raise InvalidScope(f"the scope is empty: name at least {self.levels[0]!r}")
        depth = len(scope)
        missing = [level for level in self.levels[:depth] if level not in scope]
        if missing:
            raise InvalidScope(
                f"level {missing[0]!r} is missing: levels are given from the top without gaps "
                f"({' > '.join(self.levels)})"
            )
        return Rung(tuple(_checked(level, scope[level]) for level in self.levels[:depth]))

    def scope(self, rung: Rung) -> dict[str, str]:
        """The inverse of ``rung``."""
        return dict(zip(self.levels, rung.values, strict=False))

    def level_of(self, rung: Rung) -> str:
        """The name of the rung's own level."""
        return self.levels[rung.depth - 1]


def _checked(level: str, value: str) -> str:
    if not value or value != value.strip():
        raise InvalidScope(f"level {level!r} is empty or has white space around it")
    if len(value) > MAX_VALUE_CHARACTERS:
        raise InvalidScope(
            f"level {level!r} has {len(value)} characters, at most {MAX_VALUE_CHARACTERS} are taken"
        )
    if "\x00" in value:
        raise InvalidScope(f"level {level!r} holds a NUL character")
    return value
