"""Clocks that a test moves."""

import asyncio


class FakeClock:
    """Stands still until ``advance``; wall time starts at a round moment in 2026."""

    def __init__(self, wall: float = 1_770_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 1_000.0

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds


class LoopClock:
    """The running loop's own time, so that timers and leases jump together on a virtual loop."""

    START = 1_770_000_000.0

    def wall(self) -> float:
        return self.START + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
