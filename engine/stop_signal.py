"""How work in the background is told to stop."""

import asyncio
from contextlib import suppress

from precall.engine.errors import Draining


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
