"""One client's event stream: order, confirmation, and the lease that makes deletes exact."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from precall.engine.anticipation.events import EventBody, Heartbeat, Push, StreamEvent
from precall.engine.anticipation.lease import Lease
from precall.engine.clock import Clock
from precall.engine.encoding.card import ModelCard

NEVER: Final = 2**63
"""The sequence of an event that was not queued: only the end of the lease satisfies a wait for it."""


class Stream:
    """Events queue here until the connection takes them; only the event loop may touch a stream.

    The lease is renewed only by a client that keeps up: one that leaves an invalidation unconfirmed for
    ``patience`` seconds, or had one given up on it, is not renewed until it has applied it. So a waiting
    delete waits for at most ``patience`` plus one lease, and what it gave up on cannot be served later.
    """

    def __init__(
        self,
        stream_id: str,
        tenant_id: str,
        card: ModelCard,
        lease: Lease,
        clock: Clock,
        *,
        patience: float,
        capacity: int,
    ) -> None:
        """``card``: of the model whose vectors it carries."""
        self.id = stream_id
        self.tenant_id = tenant_id
        self.card = card
        self.lease = lease
        self.ended_because: str | None = None
        self._clock = clock
        self._patience = patience
        self._capacity = capacity
        self._sequence = 0
        self._applied = 0
        self._given_up = 0
        self._queue: deque[StreamEvent] = deque()
        self._unconfirmed: deque[tuple[int, float]] = deque()  # sequence, sent at
        self._waiting: Counter[str] = Counter()  # session -> parts of pushes in the queue
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._progressed = asyncio.Event()

    @property
    def sent(self) -> int:
        """The sequence of the last event that was queued."""
        return self._sequence

    @property
    def applied(self) -> int:
        """The last event that the client said it has applied."""
        return self._applied

    @property
    def open(self) -> bool:
        return self.ended_because is None

    def waiting(self, session_id: str) -> int:
        """Parts of a session's pushes that the connection has not taken yet."""
        return self._waiting[session_id]

    async def room(self, session_id: str, most: int) -> None:
        """Return once fewer than ``most`` parts of a session's pushes wait, or the stream has ended."""
        while self.open and self.waiting(session_id) >= most:
            self._taken.clear()
            await self._taken.wait()

    def send(self, body: EventBody, *, confirm: bool = False) -> int:
        """Queue an event; returns its sequence, NEVER when the stream has ended.

        A client too slow for its queue is cut off, not buffered.
        """
        if not self.open:
            return NEVER
        if len(self._queue) >= self._capacity:
            self.end("the client does not read its stream")
            return NEVER
        self._sequence += 1
        self._queue.append(StreamEvent(self._sequence, body, confirm))
        if isinstance(body, Push):
            self._waiting[body.session_id] += 1
        if confirm:
            self._unconfirmed.append((self._sequence, self._clock.monotonic()))
        self._arrived.set()
        return self._sequence

    async def next(self, heartbeat: Callable[[], Heartbeat], interval: float) -> StreamEvent | None:
        """The next event, a heartbeat when nothing came for ``interval`` seconds, None at the end."""
        if not self._queue and self.open:
            self._arrived.clear()
            try:
                async with asyncio.timeout(interval):
                    await self._arrived.wait()
            except TimeoutError:
                self.send(heartbeat())
        return self._take() if self._queue else None

    def end(self, reason: str) -> None:
        """No more events. The client may hold its lease all the same: see ``wait_applied``."""
        if self.open:
            self.ended_because = reason
            self._arrived.set()
            self._taken.set()
            self._progressed.set()

    def acknowledge(self, sequence: int) -> None:
        """The client has applied every event up to ``sequence``."""
        self._applied = max(self._applied, min(sequence, self._sequence))
        while self._unconfirmed and self._unconfirmed[0][0] <= self._applied:
            self._unconfirmed.popleft()
        self._progressed.set()

    @property
    def behind(self) -> bool:
        """Whether the client must apply something before its lease may be renewed; always, after the end."""
        if not self.open or self._applied < self._given_up:
            return True
        return bool(self._unconfirmed and self._clock.monotonic() - self._unconfirmed[0][1] > self._patience)

    async def wait_applied(self, sequence: int) -> None:
        """Return once the client has applied the event, or may serve nothing at all any more."""
        while self._applied < sequence:
            remaining = self.lease.remaining
            if remaining <= 0:
                self._given_up = max(self._given_up, sequence)
                return
            self._progressed.clear()
            try:
                async with asyncio.timeout(remaining):
                    await self._progressed.wait()
            except TimeoutError:
                continue

    def _take(self) -> StreamEvent:
        event = self._queue.popleft()
        if isinstance(event.body, Push):
            self._waiting[event.body.session_id] -= 1
            if not self._waiting[event.body.session_id]:
                del self._waiting[event.body.session_id]
            self._taken.set()
        return event
