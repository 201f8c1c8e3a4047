"""The thread that owns the device: takes a batch, encodes it, reports, takes the next."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.failed_pass import failed_pass
from precall.engine.batching.queue import WorkQueue
from precall.engine.batching.work import Batch, Ticket, Turn, WorkClass
from precall.engine.encoding.encoder import EncodedBatch, Encoder
from precall.engine.encoding.numerics import unit_rows
from precall.engine.errors import ModelUnavailable, PrecallError

_logger = logging.getLogger(__name__)

_MOST_FAILED_TURNS: Final = 3
"""So many times running that no batch can be chosen, and the thread gives up."""
_PAUSE_SECONDS: Final = 0.1

Report = TypeVar("Report")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A batch that left the device: ``encoded`` or ``failure``, and ``tickets``, the claims on each work."""

    batch: Batch
    tickets: Sequence[Sequence[Ticket]]
    device_seconds: float
    encoded: EncodedBatch | None
    failure: PrecallError | None

    @property
    def has_sound_row(self) -> bool:
        return self.encoded is not None and len(self.encoded.errors) < len(self.batch.works)

    def row(self, row: int) -> tuple[NDArray[np.float32] | None, PrecallError | None]:
        """The vector of work ``row`` (its own read-only copy), or why there is none."""
        if self.encoded is None:
            return None, self.failure
        error = self.encoded.errors.get(row)
        if error is not None:
            return None, error
        vector = self.encoded.vectors[row].copy()
        vector.flags.writeable = False
        return vector, None


class DeviceThread:
    """Survives whatever a batch raises. ``deliver``, ``deliver_expired`` and ``lost`` are called on this
    thread; ``lost`` when the queue cannot be read, as the last thing before it ends.
    """

    def __init__(
        self,
        encoder: Encoder,
        queue: WorkQueue,
        guarded: threading.Condition,
        *,
        classes: Sequence[WorkClass],
        deliver: Callable[[BatchResult], object],
        deliver_expired: Callable[[Sequence[Ticket]], object],
        lost: Callable[[PrecallError], object],
    ) -> None:
        """``guarded`` guards ``queue``; whoever admits work notifies all who wait for it. Only work of
        ``classes`` (the most urgent first) is taken.
        """
        self.classes = classes
        self._encoder = encoder
        self._queue = queue
        self._guarded = guarded
        self._deliver = deliver
        self._deliver_expired = deliver_expired
        self._lost = lost
        self._stopping = False
        # A daemon, so that a device that hangs cannot keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="precall-device", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop_when_idle(self) -> None:
        with self._guarded:
            self._stopping = True
            self._guarded.notify_all()

    def join(self) -> None:
        self._thread.join()

    def _work(self) -> None:
        failures = 0
        while True:
            try:
                turn = self._next_turn()
            except BaseException as error:
                failures += 1
                _logger.exception("the next batch cannot be chosen")
                if failures == _MOST_FAILED_TURNS:
                    self._lost(failed_pass(error, "the choice of a batch"))
                    return
                self._pause()
                continue
            if turn is None:
                return
            failures = 0
            if turn.expired:
                _report(self._deliver_expired, turn.expired)
            if turn.batch is not None:
                _report(self._deliver, self._compute(turn.batch))

    def _next_turn(self) -> Turn | None:
        """Wait for work; None when stopping and nothing is left."""
        with self._guarded:
            self._guarded.wait_for(lambda: self._queue.has_waiting_of(self.classes) or self._stopping)
            return self._queue.take(self.classes) if self._queue.has_waiting_of(self.classes) else None

    def _pause(self) -> None:
        """Leave the system time to find memory; new work ends the wait."""
        with self._guarded:
            self._guarded.wait(_PAUSE_SECONDS)

    def _compute(self, batch: Batch) -> BatchResult:
        encoded: EncodedBatch | None = None
        failure: PrecallError | None = None
        begin = time.perf_counter()
        try:
            encoded = self._encode(batch)
        except BaseException as error:  # a thread that died of it would leave every later caller waiting
            failure = failed_pass(error, f"a batch of {len(batch.works)} texts")
        seconds = time.perf_counter() - begin
        with self._guarded:
            try:
                tickets = self._queue.complete(batch, seconds)
            except BaseException:
                _logger.exception("a batch of %d texts cannot be completed in order", len(batch.works))
                tickets = self._queue.abandon(batch)
        return BatchResult(batch, tickets, seconds, encoded, failure)

    def _encode(self, batch: Batch) -> EncodedBatch:
        encoded = self._encoder.encode([work.text for work in batch.works])
        expected = (len(batch.works), self._encoder.card.dimension)
        if encoded.vectors.shape != expected:
            raise ModelUnavailable(
                f"the encoder answered vectors of shape {encoded.vectors.shape} where {expected} were due: "
                "this is a fault in the encoder"
            )
        return unit_rows(encoded.vectors, encoded.errors)


def _report(deliver: Callable[[Report], object], report: Report) -> None:
    try:
        deliver(report)
    except Exception:  # whoever waited has gone with the event loop; the thread still has to end in order
        _logger.exception("what left the device cannot be delivered")
