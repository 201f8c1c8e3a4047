"""The asyncio face of the queue and of the device.

A text's life: ``embed`` tokenises it (on a thread when there is much of it), admits it and waits; a worker of
the device takes a batch the moment it is free, encodes it, and hands the outcomes back to the event loop.
While one batch runs, what the next ones need is tokenised beside it; only their choice is left until the
worker is free, because whatever is chosen earlier stands in the way of what is more urgent and comes a moment
later.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.admission import draining
from precall.engine.batching.answers import Answers
from precall.engine.batching.device import Device, worker_classes
from precall.engine.batching.health import DeviceHealth
from precall.engine.batching.observer import BatchObserver, SilentObserver
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.probe import DeviceProbe
from precall.engine.batching.queue import WorkQueue
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.tokenizing import Prepared, Reading, Tokenizing
from precall.engine.batching.work import EmbeddingRequest, QueueCounts, Ticket, TicketState, WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.errors import DeadlineExceeded, ModelUnavailable, Overloaded, PrecallError


class Batcher:
    """Embeds texts for many callers on one device. Made and used on one event loop; owns no encoder.

    Between ``start`` and ``close``, ``embed`` answers every text with an outcome; a failure of the device
    fails the texts that were on it and nothing else.
    """

    def __init__(
        self,
        encoder: Encoder,
        settings: BatchingSettings | None = None,
        observer: BatchObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` (seconds) is what deadlines are measured on."""
        self._encoder = encoder
        self._settings = settings if settings is not None else BatchingSettings()
        self._observer = observer if observer is not None else SilentObserver()
        self._clock = clock
        self._queue = WorkQueue(self._settings, clock, worker_classes(encoder))
        self._guarded = threading.Condition()
        self._health = DeviceHealth("the embedding model")
        self._answers = Answers(self._health, self._observer, clock)
        self._tokenizing = Tokenizing(encoder, self._settings, clock)
        self._device: Device | None = None
        self._lost: PrecallError | None = None
        self._closing = False
        self._probe = DeviceProbe(encoder, self._health, self._settings.probe_seconds, self._ask)

    @property
    def encoder(self) -> Encoder:
        return self._encoder

    @property
    def healthy(self) -> bool:
        """Whether ``fault`` is None."""
        return self.fault is None

    @property
    def fault(self) -> PrecallError | None:
        """Why the last forward pass failed, ordinary or a probe's, or that a probe is overdue; else None.

        A batch whose every text has an error of its own says nothing of the device: the next probe will.
        """
        if self._device is None or not self._device.is_alive:
            return _not_running()
        return self._health.fault

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener``, on the event loop, whenever ``fault`` appears or goes."""
        self._health.listen(listener)

    @property
    def waiting_tokens(self) -> int:
        return self._queue.waiting_tokens

    @property
    def counts(self) -> QueueCounts:
        return self._queue.counts

    async def start(self) -> None:
        """Start the device and prove it with a forward pass of each worker. Raises what ``probe`` raises."""
        assert self._device is None, "a batcher starts once"
        loop = asyncio.get_running_loop()
        self._device = Device(
            self._encoder,
            self._queue,
            self._guarded,
            deliver=lambda worker, result: loop.call_soon_threadsafe(self._answers.deliver, worker, result),
            deliver_expired=lambda tickets: loop.call_soon_threadsafe(self._answers.expire, tickets),
            lost=lambda worker, error: loop.call_soon_threadsafe(self._lose, worker, error),
        )
        try:
            self._tokenizing.start()
            await self._device.start()
            await self.probe()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Refuse new work, answer what was admitted, end the threads. Twice is as once."""
        self._closing = True
        if self._device is not None:
            # All that its threads delivered was on the loop before the end of this wait could be.
            await self._device.finish()
        self._tokenizing.close()

    def refuse_waiting(self) -> None:
        """Answer with Draining what has not reached the device, and take nothing more; ``close`` follows."""
        self._closing = True
        with self._guarded:
            waiting = [ticket for ticket in self._answers if ticket.state is TicketState.WAITING]
            self._queue.cancel(waiting)
        self._observer.cancelled(len(waiting))
        self._answers.fail(waiting, draining())

    async def embed(
        self,
        texts: Sequence[str],
        role: TextRole,
        *,
        tenant: str,
        work_class: WorkClass,
        deadline: float | None = None,
        truncate: bool = False,
        instruction: str | None = None,
    ) -> list[EmbeddingOutcome]:
        """An outcome a text, in order. Cancelling the caller drops what has not reached the device.

        ``deadline`` is on ``clock`` (monotonic seconds), ``instruction`` as in ``Encoder.tokenize``. A text
        that is wrong, too late or hit by a failure has its own error in its outcome. Raised for the request
        as a whole, before anything of it is queued: ``Overloaded``, ``InvalidInput`` (more tokens
        or characters than may ever wait), ``Draining``, and what the encoder says to an instruction that it
        does not take.
        """
        self._require_open()
        prepared = await self._prepare(
            texts, Reading(role, truncate, instruction, deadline, tenant, work_class)
        )
        self._require_open()
        self._count_late([item.error for item in prepared])
        outcomes: list[EmbeddingOutcome | None] = [
            EmbeddingOutcome(None, item.error, None, item.seconds) if item.text is None else None
            for item in prepared
        ]
        positions = [position for position, outcome in enumerate(outcomes) if outcome is None]
        tickets = self._admit(
            [
                EmbeddingRequest(item.text, role, tenant, work_class, deadline)
                for item in prepared
                if item.text is not None
            ]
        )
        answers = await self._wait_for(tickets, deadline)
        for position, answer in zip(positions, answers, strict=True):
            outcomes[position] = replace(answer, tokenize_seconds=prepared[position].seconds)
        return [outcome for outcome in outcomes if outcome is not None]

    async def embed_one(
        self,
        text: str,
        role: TextRole,
        *,
        tenant: str,
        work_class: WorkClass,
        deadline: float | None = None,
        truncate: bool = False,
    ) -> NDArray[np.float32]:
        """The vector of one text, float32, shape ``(dimension,)``; raises the text's error if it has one."""
        (outcome,) = await self.embed(
            [text], role, tenant=tenant, work_class=work_class, deadline=deadline, truncate=truncate
        )
        return outcome.require_vector()

    async def probe(self) -> None:
        """A real forward pass by each of the device's workers, even if the queue is full: is the model alive?

        Raises ``ModelUnavailable`` or ``NumericsError``, and ``healthy`` says the same until a pass works
        again.
        """
        if self._device is None or not self._device.is_alive:
            raise _not_running()
        await self._probe.check(self._device.classes)

    async def _ask(self, request: EmbeddingRequest) -> EmbeddingOutcome:
        (outcome,) = await self._wait_for(self._admit([request], beyond_limit=True), None)
        return outcome

    def _require_open(self) -> None:
        if self._closing:
            raise draining()
        if self._lost is not None:
            raise self._lost
        if self._device is None or not self._device.is_alive:
            raise _not_running()

    async def _prepare(self, texts: Sequence[str], reading: Reading) -> list[Prepared]:
        """Read the texts, or refuse before the tokenizer what the queue would refuse after it: a flood must
        cost nothing.
        """

        def require_room(fewest_tokens: int) -> None:
            with self._guarded:
                self._queue.require_room(reading.work_class, reading.tenant, fewest_tokens, len(texts))
            if reading.instruction is not None:  # a wrong one would fail every text alike
                self._encoder.tokenize(
                    PROBE_TEXT, reading.role, truncate=True, instruction=reading.instruction
                )

        try:
            return await self._tokenizing.prepare(texts, reading, require_room)
        except Overloaded:
            self._observer.refused(len(texts))
            raise

    def _count_late(self, errors: Sequence[PrecallError | None]) -> None:
        late = sum(isinstance(error, DeadlineExceeded) for error in errors)
        if late:
            self._observer.expired(late)

    def _admit(self, requests: Sequence[EmbeddingRequest], *, beyond_limit: bool = False) -> list[Ticket]:
        """Queue the requests and wake the device. No answer can come before the loop runs again."""
        try:
            with self._guarded:
                tickets = self._queue.admit(requests, beyond_limit=beyond_limit)
                self._guarded.notify_all()
        except Overloaded:
            self._observer.refused(len(requests))
            raise
        self._answers.promise(tickets)
        return tickets

    async def _wait_for(self, tickets: Sequence[Ticket], deadline: float | None) -> list[EmbeddingOutcome]:
        answers = self._answers.to(tickets)
        pending = set(answers)
        try:
            while pending:
                left = None if deadline is None else deadline - self._clock()
                if left is not None and left <= 0.0:
                    self._expire()
                    left = None  # what is still pending is on the device and will be there in a moment
                _, pending = await asyncio.wait(pending, timeout=left)
            return [answer.result() for answer in answers]
        except asyncio.CancelledError:
            with self._guarded:
                dropped = self._queue.cancel(tickets)
            self._observer.cancelled(dropped)
            raise
        finally:
            self._answers.forget(tickets)

    def _expire(self) -> None:
        with self._guarded:
            expired = self._queue.expire()
        self._answers.expire(expired)

    def _lose(self, worker: int, error: PrecallError) -> None:
        """A worker has ended: what waited for it, and for the other one, gets its answer from nobody."""
        self._lost = error
        self._health.failed(error, worker)
        left = list(self._answers)
        self._answers.fail(left, error)
        with self._guarded:
            self._queue.cancel(left)


def _not_running() -> ModelUnavailable:
    return ModelUnavailable("the device's thread is not running: start the batcher first")
