"""The one thread that a reranker computes on, and whether it still does."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from precall.engine.batching.failed_pass import failed_pass
from precall.engine.batching.health import DeviceHealth
from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.encoding.reranker import RerankedBatch, Reranker
from precall.engine.encoding.scores import finite_scores
from precall.engine.errors import DeadlineExceeded, ModelUnavailable, PrecallError
from precall.engine.retrieval.worker_thread import WorkerThread

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RerankerPass:
    """What the device said to some pairs: ``batch`` or ``failure``."""

    batch: RerankedBatch | None
    failure: PrecallError | None
    queue_seconds: float
    device_seconds: float

    @property
    def has_sound_row(self) -> bool:
        return self.batch is not None and len(self.batch.errors) < len(self.batch.scores)


class RerankerDevice:
    """Passes go first come, first served. Made and used on one event loop; ``close`` ends the thread."""

    def __init__(self, reranker: Reranker, clock: Callable[[], float], *, probe_seconds: float) -> None:
        """``clock`` (seconds) is what deadlines are measured on."""
        self._reranker = reranker
        self._clock = clock
        self._probe_seconds = probe_seconds
        self._thread = WorkerThread("precall-reranker")
        self._health = DeviceHealth("the reranker")
        self._sound_passes = 0

    @property
    def fault(self) -> PrecallError | None:
        """Why the last pass failed, ordinary or a probe's, or that a probe is overdue; else None.

        A pass whose every pair has an error of its own says nothing of the device: the next probe will.
        """
        return self._health.fault

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener``, on the event loop, whenever ``fault`` appears or goes."""
        self._health.listen(listener)

    async def score(self, pairs: Sequence[TokenizedText], deadline: float | None) -> RerankerPass:
        """One pass over a non-empty list; a cancelled caller's does not begin. Raises DeadlineExceeded."""
        loop = asyncio.get_running_loop()

        def compute() -> RerankerPass:
            done = self._score(pairs, deadline, queued_at)
            # Told from here, for a caller who has gone meanwhile would not tell.
            loop.call_soon_threadsafe(self._note, done)
            return done

        queued_at = self._clock()
        return await self._thread.run(compute)

    async def close(self, seconds: float) -> None:
        """End the thread after the pass in progress; one that takes over ``seconds`` is left to itself.

        No pass may be asked for any more. Twice is as once.
        """
        if not await self._thread.finish(seconds):
            _logger.warning("the reranker still computes after %g s and is left to itself", seconds)

    async def probe(self) -> None:
        """A real pass: is the model alive? Somebody else's that works meanwhile is as good.

        Raises ``ModelUnavailable`` or ``NumericsError``; ``fault`` says the same until a pass works again.
        """
        fault = await self._probe_fault()
        if fault is not None:
            self._health.failed(fault)
            raise fault

    async def _probe_fault(self) -> PrecallError | None:
        sound_passes = self._sound_passes
        try:
            pair = self._reranker.tokenize(PROBE_TEXT, PROBE_TEXT, truncate=True)
            async with asyncio.timeout(self._probe_seconds):
                done = await self.score([pair], None)
        except TimeoutError:
            if self._sound_passes > sound_passes:
                return None
            return ModelUnavailable(
                f"the reranker did not answer a probe within {self._probe_seconds:g} s: "
                "restart the server if this goes on"
            )
        except Exception as error:  # whatever it was, the model cannot even read the probe
            return failed_pass(error, "a probe")
        return done.failure if done.batch is None else done.batch.errors.get(0)

    def _note(self, done: RerankerPass) -> None:
        if done.failure is not None:
            self._health.failed(done.failure)
        elif done.has_sound_row:
            self._sound_passes += 1
            self._health.worked()

    def _score(
        self, pairs: Sequence[TokenizedText], deadline: float | None, queued_at: float
    ) -> RerankerPass:
        begin = self._clock()
        if deadline is not None and begin >= deadline:
            raise DeadlineExceeded(
                "the deadline passed before the documents' turn came: allow more time or send fewer"
            )
        batch: RerankedBatch | None = None
        failure: PrecallError | None = None
        try:
            scored = self._reranker.score(pairs)
            batch = finite_scores(scored.scores, scored.errors)
        except BaseException as error:  # the documents of other passes are not touched by it
            failure = failed_pass(error, f"{len(pairs)} documents")
        return RerankerPass(batch, failure, begin - queued_at, self._clock() - begin)
