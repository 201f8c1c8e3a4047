"""A first-in first-out line on which everything takes the same time to arrive."""

import asyncio
from collections import deque
from collections.abc import Sized
from dataclasses import dataclass
from typing import Generic, TypeVar

Payload = TypeVar("Payload", bound=Sized)


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Payload]):
    due: float
    payload: Payload


class DelayLine(Generic[Payload]):
    """Payloads put at a moment ``t`` can be got from ``t + delay_seconds`` on, in the order of their putting.

    Many payloads are under way at once, so the delay costs no bandwidth. ``put`` waits while
    ``capacity_bytes`` or more are under way (the sum of ``len`` of the payloads).

    Invariants: one task puts and one task gets; due times never decrease.
    """

    def __init__(self, delay_seconds: float, capacity_bytes: int) -> None:
        if delay_seconds < 0:
            raise ValueError(f"delay_seconds must be 0 or more, not {delay_seconds}")
        if capacity_bytes < 1:
            raise ValueError(f"capacity_bytes must be 1 or more, not {capacity_bytes}")
        self._delay_seconds = delay_seconds
        self._capacity_bytes = capacity_bytes
        self._entries: deque[_Entry[Payload]] = deque()
        self._bytes_under_way = 0
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()

    async def put(self, payload: Payload) -> None:
        """Send ``payload`` on its way, once there is room."""
        while self._bytes_under_way >= self._capacity_bytes:
            self._has_room.clear()
            await self._has_room.wait()
        due = asyncio.get_running_loop().time() + self._delay_seconds
        self._entries.append(_Entry(due, payload))
        self._bytes_under_way += len(payload)
        self._arrived.set()

    async def get(self) -> Payload:
        """The next payload, not before it is due."""
        while not self._entries:
            self._arrived.clear()
            await self._arrived.wait()
        remaining = self._entries[0].due - asyncio.get_running_loop().time()
        if remaining > 0:
            await asyncio.sleep(remaining)
        payload = self._entries.popleft().payload
        self._bytes_under_way -= len(payload)
        self._has_room.set()
        return payload
