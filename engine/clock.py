"""Time as the engine sees it, so that tests can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    def wall(self) -> float:
        """Unix seconds; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back, and counts while the machine is suspended."""
        ...


class SystemClock:
    """The machine's clocks. A lease must not outlive a suspended laptop: CLOCK_BOOTTIME if there is one."""

    _source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(self._source)
