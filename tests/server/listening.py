"""A Watch stream that is read and confirmed beside the test."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from harness import Caller


@dataclass
class Listener:
    """Takes what comes down a stream and confirms it, as a client does."""

    caller: Caller
    stream_id: str
    events: list[Any] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def listen(self) -> None:
        call = self.caller.stream("AnticipationService/Watch", stream_id=self.stream_id)
        try:
            while (event := await call.read()) is not grpc.aio.EOF:
                async with self._news:
                    self.events.append(event)
                    self._news.notify_all()
                if event.confirm:
                    applied = {"stream_id": self.stream_id, "applied_sequence": event.sequence}
                    await self.caller("AnticipationService/RenewLease", **applied)
        finally:
            call.cancel()

    async def until(self, kind: str, after: int = 0, caused_by: int = 0) -> None:
        """Wait for an event of a kind, not among the first ``after``; ``caused_by``: see Push."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(
                lambda: any(
                    event.WhichOneof("event") == kind and event.push.caused_by_sequence == caused_by
                    for event in self.events[after:]
                )
            )

    async def all_that_was_meant(self) -> list[Any]:
        """Every event but heartbeats, once two of those have come."""
        for _ in range(2):
            await self.until("heartbeat", after=len(self.events))
        return [event for event in self.events if event.WhichOneof("event") != "heartbeat"]
