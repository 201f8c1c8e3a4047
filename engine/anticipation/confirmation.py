"""The wait of a strict write: until no cache can serve what it removed."""

import asyncio
from collections.abc import Mapping

from precall.engine.anticipation.observer import AnticipationObserver
from precall.engine.anticipation.stream import Stream
from precall.engine.clock import Clock


class Confirmation:
    """Streams that must still apply an event, each with the event's sequence."""

    def __init__(self, waiting: Mapping[Stream, int], clock: Clock, observer: AnticipationObserver) -> None:
        self._waiting = waiting
        self._clock = clock
        self._observer = observer

    async def wait(self) -> None:
        """Return when each stream's client has applied its event or may serve nothing any more."""
        if not self._waiting:
            return
        started = self._clock.monotonic()
        await asyncio.gather(*(stream.wait_applied(event) for stream, event in self._waiting.items()))
        self._observer.confirmed(self._clock.monotonic() - started)
