"""The asyncio face of the queue, and the one thread that feeds the device.

A text's life: ``embed`` tokenises it (on a thread when there is much of it), admits it and waits; the
device's thread takes a batch the moment it is free, encodes it, and hands the outcomes back to the event
loop. While one batch runs, what the next ones need is tokenised beside it; only their choice is left until
the device is free, because whatever is chosen earlier stands in the way of a conversation that comes a moment
later.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.admission import require_bounded
from precall.engine.batching.device_thread import BatchResult, DeviceThread
from precall.engine.batching.observer import BatchObserver, SilentObserver
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.queue import WorkQueue
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import EmbeddingRequest, QueueCounts, Ticket, WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole, TokenizedText
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.errors import DeadlineExceeded, Draining, ModelUnavailable, Overloaded, PrecallError

_logger = logging.getLogger(__name__)
_PROBE_TENANT = ""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A text after the tokenizer: ``text`` or ``error``."""

    text: TokenizedText | None
    error: PrecallError | None
    seconds: float


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
        self._queue = WorkQueue(self._settings, clock)
        self._guarded = threading.Condition()
        self._answers: dict[Ticket, asyncio.Future[EmbeddingOutcome]] = {}
        self._tokenizers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="precall-tokenizer")
        self._device: DeviceThread | None = None
        self._closing = False
        self._healthy = False

    @property
    def encoder(self) -> Encoder:
        return self._encoder

    @property
    def healthy(self) -> bool:
        """Whether the last forward pass worked and no probe is overdue. ``probe`` brings it up to date."""
        return self._healthy and self._device is not None and self._device.is_alive

    @property
    def waiting_tokens(self) -> int:
        return self._queue.waiting_tokens

    @property
    def counts(self) -> QueueCounts:
        return self._queue.counts

    async def start(self) -> None:
        """Start the device's thread and prove it with a forward pass. Raises what ``probe`` raises."""
        assert self._device is None, "a batcher starts once"
        loop = asyncio.get_running_loop()
        self._device = DeviceThread(
            self._encoder,
            self._queue,
            self._guarded,
            deliver=lambda result: loop.call_soon_threadsafe(self._deliver, result),
            deliver_expired=lambda tickets: loop.call_soon_threadsafe(self._answer_expired, tickets),
        )
        self._device.start()
        try:
            await self.probe()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Refuse new work, answer what was admitted, end the threads. Twice is as once."""
        self._closing = True
        if self._device is not None:
            self._device.stop_when_idle()
            # All that the thread delivered was on the loop before the end of this wait could be.
            await asyncio.to_thread(self._device.join)
        self._tokenizers.shutdown(wait=False)

    async def embed(
        self,
        texts: Sequence[str],
        role: TextRole,
        *,
        tenant: str,
        work_class: WorkClass,
        deadline: float | None = None,
        truncate: bool = False,
    ) -> list[EmbeddingOutcome]:
        """An outcome a text, in order. Cancelling the caller drops what has not reached the device.

        ``deadline`` is on ``clock`` (monotonic seconds). A text that is wrong, too late or hit by a failure
        has its own error in its outcome. Raised for the request as a whole, before anything of it is queued:
        ``Overloaded``, ``InvalidInput`` (more tokens than the queue ever takes), ``Draining``.
        """
        self._require_open()
        prepared = await self._prepare(texts, role, truncate)
        self._require_open()
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
        """A real forward pass on the device's thread, even if the queue is full: is the model alive?

        Raises ``ModelUnavailable`` or ``NumericsError``, and ``healthy`` says the same until a pass works
        again.
        """
        request = EmbeddingRequest(
            self._encoder.tokenize(PROBE_TEXT, TextRole.QUERY, truncate=True),
            TextRole.QUERY,
            _PROBE_TENANT,
            WorkClass.CONVERSATION,
        )
        try:
            async with asyncio.timeout(self._settings.probe_seconds):
                (outcome,) = await self._wait_for(self._admit([request], beyond_limit=True), None)
        except TimeoutError as error:
            self._healthy = False
            raise ModelUnavailable(
                f"the device did not answer a probe within {self._settings.probe_seconds:g} s: "
                "restart the server if this goes on"
            ) from error
        if outcome.error is not None:
            self._healthy = False
            raise outcome.error

    def _require_open(self) -> None:
        if self._closing:
            raise Draining(
                "the server is shutting down: send the request to another one, or again in a moment"
            )
        if self._device is None or not self._device.is_alive:
            raise ModelUnavailable("the device's thread is not running: start the batcher first")

    async def _prepare(self, texts: Sequence[str], role: TextRole, truncate: bool) -> list[_Prepared]:
        few = len(texts) <= self._settings.inline_texts
        if few and sum(len(text) for text in texts) <= self._settings.inline_characters:
            return self._tokenize(texts, role, truncate)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenizers, self._tokenize, texts, role, truncate)

    def _tokenize(self, texts: Sequence[str], role: TextRole, truncate: bool) -> list[_Prepared]:
        prepared = []
        for text in texts:
            begin = time.perf_counter()
            tokenized: TokenizedText | None = None
            fault: PrecallError | None = None
            try:
                require_bounded(text, self._settings.max_text_characters)
                tokenized = self._encoder.tokenize(text, role, truncate=truncate)
            except PrecallError as error:
                fault = error
            prepared.append(_Prepared(tokenized, fault, time.perf_counter() - begin))
        return prepared

    def _admit(self, requests: Sequence[EmbeddingRequest], *, beyond_limit: bool = False) -> list[Ticket]:
        """Queue the requests and wake the device. No answer can come before the loop runs again."""
        loop = asyncio.get_running_loop()
        try:
            with self._guarded:
                tickets = self._queue.admit(requests, beyond_limit=beyond_limit)
                self._guarded.notify()
        except Overloaded:
            self._observer.refused(len(requests))
            raise
        for ticket in tickets:
            self._answers[ticket] = loop.create_future()
        return tickets

    async def _wait_for(self, tickets: Sequence[Ticket], deadline: float | None) -> list[EmbeddingOutcome]:
        answers = [self._answers[ticket] for ticket in tickets]
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
            for ticket in tickets:
                self._answers.pop(ticket, None)

    def _expire(self) -> None:
        with self._guarded:
            expired = self._queue.expire()
        self._answer_expired(expired)

    def _answer_expired(self, tickets: Sequence[Ticket]) -> None:
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

    def _deliver(self, result: BatchResult) -> None:
        self._healthy = result.has_sound_row
        if result.failure is not None:
            _logger.error("a batch of %d texts failed", len(result.batch.works), exc_info=result.failure)
        self._observer.finished(result.batch, result.device_seconds, failed=result.failure is not None)
        for row, tickets in enumerate(result.tickets):
            vector, error = result.row(row)
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

    def _answer(self, ticket: Ticket, outcome: EmbeddingOutcome) -> None:
        answer = self._answers.get(ticket)
        if answer is not None and not answer.done():
            answer.set_result(outcome)
