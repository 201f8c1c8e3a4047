"""Start-time fair queueing: whoever has been served least, by weight, goes next.

Each member has a virtual clock that runs on by ``amount / weight`` when it is served. Virtual time is the
clock of the member served last; whoever joins starts there at the earliest, so idling earns no credit and a
newcomer is next at once. (Goyal, Vin and Cheng, "Start-time Fair Queueing", SIGCOMM 1996.)
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)


class FairShare(Generic[Member]):
    """Invariant: no member's clock is behind the virtual time at which it joined."""

    def __init__(self, weights: Mapping[Member, float] | None = None) -> None:
        """``weights`` of members that are not named are 1."""
        self._weights = dict(weights or {})
        self._clocks: dict[Member, float] = {}
        self._now = 0.0

    def __contains__(self, member: Member) -> bool:
        return member in self._clocks

    def __len__(self) -> int:
        return len(self._clocks)

    def clock(self, member: Member) -> float:
        return self._clocks[member]

    def clock_after(self, member: Member, clock: float, amount: float) -> float:
        """Where a clock of ``member`` that stands at ``clock`` gets to by serving ``amount``."""
        return clock + amount / self._weights.get(member, 1.0)

    def join(self, member: Member, clock: float = 0.0) -> None:
        """Take part from now on; ``clock`` is what the member brings from an earlier time, if anything."""
        self._clocks[member] = max(clock, self._now)

    def leave(self, member: Member) -> None:
        del self._clocks[member]

    def serve(self, member: Member, amount: float) -> None:
        clock = self._clocks[member]
        self._now = max(self._now, clock)
        self._clocks[member] = self.clock_after(member, clock, amount)
