"""The threads that compute: one for everything, or one for conversations and one that gives way to it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from precall.engine.batching.device_thread import BatchResult, DeviceThread
from precall.engine.batching.queue import ONE_WORKER, WorkQueue
from precall.engine.batching.work import Ticket, WorkClass
from precall.engine.encoding.background import HasBackground
from precall.engine.encoding.encoder import Encoder
from precall.engine.errors import PrecallError

URGENT: Final = (WorkClass.CONVERSATION,)
"""What never waits for a batch of another class where the encoder has a background worker."""
PATIENT: Final = (WorkClass.PREFETCH, WorkClass.INGEST)


def worker_classes(encoder: Encoder) -> Sequence[Sequence[WorkClass]]:
    """What each worker of a ``Device`` of ``encoder`` computes, by its number."""
    return (URGENT, PATIENT) if isinstance(encoder, HasBackground) else ONE_WORKER


class Device:
    """Feeds every worker of one encoder from one queue. A worker is known by its number; 0 is the first.

    Where passes can run side by side (``HasBackground``), worker 0 computes ``URGENT`` and worker 1 the rest,
    after all that is urgent; else worker 0 computes everything in the queue's own order.
    """

    def __init__(
        self,
        encoder: Encoder,
        queue: WorkQueue,
        guarded: threading.Condition,
        *,
        deliver: Callable[[int, BatchResult], object],
        deliver_expired: Callable[[Sequence[Ticket]], object],
        lost: Callable[[int, PrecallError], object],
    ) -> None:
        """``guarded`` guards ``queue``. The callbacks run on the workers' threads; ``deliver`` is told whose
        batch it is, ``lost`` which worker ends because it cannot go on.
        """
        self._encoder = encoder
        self._queue = queue
        self._guarded = guarded
        self._deliver = deliver
        self._deliver_expired = deliver_expired
        self._lost = lost
        self._background: Encoder | None = None
        self._workers: list[DeviceThread] = []

    @property
    def is_alive(self) -> bool:
        return bool(self._workers) and all(worker.is_alive for worker in self._workers)

    @property
    def classes(self) -> Sequence[Sequence[WorkClass]]:
        """What each worker computes, by its number."""
        return [worker.classes for worker in self._workers]

    async def start(self) -> None:
        """Load what the background needs and start the threads. Raises ``ModelUnavailable``."""
        encoders = [self._encoder]
        if isinstance(self._encoder, HasBackground):
            self._background = await asyncio.to_thread(self._encoder.for_background)
            encoders.append(self._background)
        self._workers = [
            self._worker(number, encoder, classes)
            for number, (encoder, classes) in enumerate(
                zip(encoders, worker_classes(self._encoder), strict=True)
            )
        ]
        for worker in self._workers:
            worker.start()

    async def finish(self) -> None:
        """Compute all that waits and end the threads: what they deliver is delivered before this returns."""
        for worker in self._workers:
            worker.stop_when_idle()
        for worker in self._workers:
            await asyncio.to_thread(worker.join)
        if self._background is not None:
            self._background.close()

    def _worker(self, number: int, encoder: Encoder, classes: Sequence[WorkClass]) -> DeviceThread:
        return DeviceThread(
            encoder,
            self._queue,
            self._guarded,
            classes=classes,
            deliver=partial(self._deliver, number),
            deliver_expired=self._deliver_expired,
            lost=partial(self._lost, number),
        )
