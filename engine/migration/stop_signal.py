"""How work in the background waits before it tries again, and is told to stop."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from precall.engine.errors import Draining

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0


def growing_pauses() -> Iterator[float]:
    """Seconds between tries of what fails for a while, each twice the one before and at most a minute."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


class StopSignal(asyncio.Event):
    """Set: stop. It is a wait that ends at once, and an error at the next place where one can stop."""

    def require_going(self) -> None:
        """Raises Draining once it is set."""
        if self.is_set():
            raise Draining("the work in the background was told to stop")

    async def pause(self, seconds: float) -> None:
        """Raises Draining as soon as it is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()
        self.require_going()
