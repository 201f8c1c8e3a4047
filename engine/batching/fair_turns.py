"""A few places, and fair turns at them: whoever has had least of them goes next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from precall.engine.batching.fair_share import FairShare


class FairTurns:
    """For one event loop. Each member stands in a line of its own, first come first served.

    Invariant: exactly the members with somebody waiting have a line and a share.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._share = FairShare[str]()
        self._lines: dict[str, dict[asyncio.Future[None], float]] = {}

    @asynccontextmanager
    async def turn(self, member: str, amount: float) -> AsyncIterator[None]:
        """Wait for a place and hold it, for work of the size ``amount``, in whatever unit, of ``member``."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if member not in self._lines:
            self._lines[member] = {}
            self._share.join(member)
        self._lines[member][place] = amount
        self._call_next()
        try:
            await place
            yield
        finally:
            if place.cancelled():
                self._leave_line(member, place)
            else:  # the place was given, even if the caller went before it heard of it
                self._free += 1
            self._call_next()

    def _call_next(self) -> None:
        while self._free and self._lines:
            member = min(self._lines, key=self._share.clock)
            place, amount = next(iter(self._lines[member].items()))
            if not place.cancelled():
                self._share.serve(member, amount)
                self._free -= 1
                place.set_result(None)
            self._leave_line(member, place)

    def _leave_line(self, member: str, place: "asyncio.Future[None]") -> None:
        line = self._lines.get(member, {})
        line.pop(place, None)
        if not line and member in self._lines:
            del self._lines[member]
            self._share.leave(member)

    def check_integrity(self) -> None:
        """Raise ``AssertionError`` if an invariant is broken."""
        assert len(self._share) == len(self._lines)
        assert all(line and member in self._share for member, line in self._lines.items())
        assert self._free >= 0 and not (self._free and self._lines)
