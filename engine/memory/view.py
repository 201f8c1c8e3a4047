"""Which memories a reader is shown, and how they stood at the moment that it asks about."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from precall.engine.memory.memory import Memory, MemoryState, to_unix_microseconds
from precall.engine.memory.rows import CURRENT

EVER: Final = -(2**63)
"""A ``now`` at which nothing has expired."""

NOT_EXPIRED: Final = "(m.expires_at IS NULL OR m.expires_at > :now)"
"""What has expired is as good as destroyed, even before it is."""

_THEN_CURRENT: Final = "m.created_at <= :moment AND (m.superseded_at IS NULL OR m.superseded_at > :moment)"


@dataclass(frozen=True, slots=True)
class View:
    """``now``: Unix microseconds. ``as_of``: the moment asked about, None for now; a memory counts from the
    moment at which it was stored to that at which it was superseded.
    """

    now: int
    as_of: datetime | None = None
    include_history: bool = False

    @property
    def condition(self) -> str:
        """SQL over ``memories m``, with the names of `parameters`."""
        if self.as_of is None:
            shown = "true" if self.include_history else f"m.state = {CURRENT}"
        else:
            shown = "m.created_at <= :moment" if self.include_history else _THEN_CURRENT
        return f"{shown} AND {NOT_EXPIRED}"

    @property
    def parameters(self) -> dict[str, int]:
        return {"now": self.now} | ({} if self._moment is None else {"moment": self._moment})

    def of(self, memory: Memory) -> Memory:
        """The memory as it stood: one that was superseded only later is current."""
        if self.as_of is None or memory.superseded_at is None or memory.superseded_at <= self.as_of:
            return memory
        return replace(memory, state=MemoryState.CURRENT, superseded_version=0, superseded_at=None)

    @property
    def _moment(self) -> int | None:
        return None if self.as_of is None else to_unix_microseconds(self.as_of)
