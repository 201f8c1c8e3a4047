"""The two clocks of the client, in one object so that tests can set them."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """``elapsed`` measures spans and never goes back; ``wall`` dates events."""

    def elapsed(self) -> float:
        """Seconds since some fixed moment, time asleep included: a suspended laptop must not keep a lease."""
        ...

    def wall(self) -> float:
        """Unix seconds of this computer."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The operating system's clocks."""

    def elapsed(self) -> float:
        # Linux stops CLOCK_MONOTONIC during suspend; elsewhere the monotonic clock is the best there is.
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
