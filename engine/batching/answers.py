"""What callers wait for, and how it comes to them from the device."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from precall.engine.batching.device_thread import BatchResult
from precall.engine.batching.failed_pass import failed_pass
from precall.engine.batching.health import DeviceHealth
from precall.engine.batching.observer import BatchObserver
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.work import Ticket
from precall.engine.errors import DeadlineExceeded, PrecallError

_logger = logging.getLogger(__name__)


class Answers:
    """A future for each ticket, from ``promise`` to ``forget``; only the first answer counts.

    For one event loop.
    """

    def __init__(self, health: DeviceHealth, observer: BatchObserver, clock: Callable[[], float]) -> None:
        """Both are told of what the device delivers; ``clock`` is the queue's."""
        self._health = health
        self._observer = observer
        self._clock = clock
        self._futures: dict[Ticket, asyncio.Future[EmbeddingOutcome]] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._futures)

    def promise(self, tickets: Sequence[Ticket]) -> None:
        loop = asyncio.get_running_loop()
        for ticket in tickets:
            self._futures[ticket] = loop.create_future()

    def to(self, tickets: Sequence[Ticket]) -> "list[asyncio.Future[EmbeddingOutcome]]":
        return [self._futures[ticket] for ticket in tickets]

    def forget(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self._futures.pop(ticket, None)

    def deliver(self, worker: int, result: BatchResult) -> None:
        """What a worker of the device made of a batch."""
        if result.failure is not None:
            _logger.error("a batch of %d texts failed", len(result.batch.works), exc_info=result.failure)
            self._health.failed(result.failure, worker)
        elif result.has_sound_row:
            self._health.worked(worker)
        self._observer.finished(result.batch, result.device_seconds, failed=result.failure is not None)
        for row, tickets in enumerate(result.tickets):
            try:
                vector, error = result.row(row)
            except Exception as fault:  # no memory for a copy, for one: the text fails, nobody waits on
                vector, error = None, failed_pass(fault, "a text")
            for ticket in tickets:
                waited = max(result.batch.taken_at - ticket.admitted_at, 0.0)
                self._observer.waited(ticket.request.work_class, waited)
                self._answer(
                    ticket,
                    EmbeddingOutcome(
                        vector,
                        error,
                        ticket.request.text.usage,
                        queue_seconds=waited,
                        device_seconds=result.device_seconds,
                    ),
                )

    def expire(self, tickets: Sequence[Ticket]) -> None:
        """Tickets whose deadline passed before their turn."""
        if tickets:
            self._observer.expired(len(tickets))
        for ticket in tickets:
            error = DeadlineExceeded(
                "the deadline passed before the text's turn came: allow more time or send less"
            )
            waited = self._clock() - ticket.admitted_at
            self._answer(
                ticket, EmbeddingOutcome(None, error, ticket.request.text.usage, queue_seconds=waited)
            )

    def fail(self, tickets: Sequence[Ticket], error: PrecallError) -> None:
        """Nothing will come of them any more."""
        for ticket in tickets:
            self._answer(ticket, EmbeddingOutcome(None, error, ticket.request.text.usage))

    def _answer(self, ticket: Ticket, outcome: EmbeddingOutcome) -> None:
        answer = self._futures.get(ticket)
        if answer is not None and not answer.done():
            answer.set_result(outcome)
