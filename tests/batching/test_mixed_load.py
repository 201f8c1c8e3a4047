"""Thousands of requests of every fate at once: each is answered once, rightly or in kind, and none stays."""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from precall.bench.answer_ledger import CANCELLED, CRASHED, EXPIRED, TOO_LONG, Answer, AnswerLedger
from precall.bench.crashing_encoder import CrashingEncoder
from precall.bench.mixed_workload import Fate, MixedRequest, Mixture, distinct_texts
from precall.bench.table_encoder import TableEncoder
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Batch, WorkClass
from precall.engine.encoding.encoder import EncodedBatch, Encoder, TextRole, TokenizedText
from precall.engine.encoding.vllm_engine import VllmEngine
from precall.engine.errors import Overloaded
from tests.vllm.fake_vllm import WIDTH, FakeVllm

CALLERS = 200
PHASES = 5
SETTINGS = BatchingSettings(max_batch_tokens=64, max_waiting_tokens=120)
TEXTS = distinct_texts(400, seed=3)


class CountingObserver:
    def __init__(self) -> None:
        self.failed_tickets = self.refused_count = 0

    def waited(self, work_class: WorkClass, seconds: float) -> None: ...

    def finished(self, batch: Batch, device_seconds: float, *, failed: bool) -> None:
        self.failed_tickets += failed * sum(len(work.tickets) for work in batch.works)

    def expired(self, count: int) -> None: ...

    def cancelled(self, count: int) -> None: ...

    def refused(self, count: int) -> None:
        self.refused_count += count


class MixedCallers:
    """Takes requests to a batcher, many at a time, and every answer to the ledger."""

    def __init__(self, batcher: Batcher, ledger: AnswerLedger) -> None:
        self._batcher = batcher
        self._ledger = ledger
        self.refusals = 0
        self.refused = asyncio.Event()

    async def send(self, requests: Iterator[MixedRequest]) -> None:
        """All of ``requests``; returns when the last one has its answer."""
        self.refused.clear()
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(self._work(requests))

    async def _work(self, requests: Iterator[MixedRequest]) -> None:
        for request in requests:
            if request.fate is Fate.CANCELLED:
                await self._give_up(request)
            else:
                self._ledger.close(request, _answers(await self._embed(request)))

    async def _give_up(self, request: MixedRequest) -> None:
        asking = asyncio.ensure_future(self._embed(request))
        for _ in range(int(8 * request.chance)):
            await asyncio.sleep(0)
        asking.cancel()
        try:
            self._ledger.close(request, _answers(await asking))
        except asyncio.CancelledError:
            self._ledger.close_whole(request, CANCELLED)

    async def _embed(self, request: MixedRequest) -> Sequence[EmbeddingOutcome]:
        late = request.fate is Fate.EXPIRED
        patience = (request.chance - 0.5) / 500 if late else 60.0
        while True:
            try:
                return await self._batcher.embed(
                    request.texts,
                    TextRole.DOCUMENT,
                    tenant=f"tenant {request.number % 3}",
                    work_class=request.work_class,
                    deadline=time.monotonic() + patience,
                )
            except Overloaded as refusal:
                self.refusals += 1
                self.refused.set()
                await asyncio.sleep(refusal.retry_after_seconds)


def _answers(outcomes: Sequence[EmbeddingOutcome]) -> list[Answer]:
    return [
        Answer(outcome.vector, "" if outcome.error is None else outcome.error.reason) for outcome in outcomes
    ]


@asynccontextmanager
async def running(encoder: Encoder, observer: CountingObserver) -> AsyncIterator[Batcher]:
    batcher = Batcher(encoder, SETTINGS, observer)
    await batcher.start()
    yield batcher
    await batcher.close()


def assert_nothing_is_left(batcher: Batcher) -> None:
    batcher._queue.check_integrity()
    assert batcher._queue.is_idle
    assert batcher.waiting_tokens == 0
    assert not batcher._answers
    counts = batcher.counts
    assert counts.admitted == counts.done + counts.expired + counts.cancelled


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Each crash is logged with its traceback, which pytest would keep."""
    caplog.set_level(logging.CRITICAL, logger="precall.engine")


async def test_a_mixed_load_is_answered_once_rightly_or_in_kind_and_leaves_nothing() -> None:
    count = 10_000
    table = TableEncoder(TEXTS)
    encoder = CrashingEncoder(table, every=1_000)
    observer = CountingObserver()
    ledger = AnswerLedger(count, table.vectors)
    requests = Mixture().requests(count, TEXTS, seed=11)
    threads = set(threading.enumerate())
    blocks: list[int] = []
    async with running(encoder, observer) as batcher:
        callers = MixedCallers(batcher, ledger)
        for _ in range(PHASES):
            table.open.clear()
            sending = asyncio.create_task(callers.send(_next(requests, count // PHASES)))
            try:
                async with asyncio.timeout(30):
                    await callers.refused.wait()  # more than may wait, however quick the device would be
            finally:
                table.open.set()
            await sending
            assert_nothing_is_left(batcher)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            gc.collect()
            blocks.append(sys.getallocatedblocks())
        await batcher.probe()
        assert batcher.healthy
    for thread in set(threading.enumerate()) - threads:
        if thread.name.startswith("precall"):
            thread.join(5)
            assert not thread.is_alive(), f"{thread.name} outlives its batcher"

    assert (ledger.faults, ledger.unanswered) == ([], 0)
    assert sum(ledger.fates.values()) == count
    assert all(60 < ledger.fates[fate] < 140 for fate in Fate if fate is not Fate.SERVED)
    assert set(ledger.outcomes) == {"right", CRASHED, TOO_LONG, CANCELLED, EXPIRED}
    assert ledger.outcomes[TOO_LONG] <= ledger.fates[Fate.TOO_LONG]
    assert encoder.crashes >= 8
    assert 0 < ledger.outcomes[CRASHED] <= observer.failed_tickets
    assert observer.refused_count >= callers.refusals > 0
    # A future, ticket or vector kept of one request in ten would be thousands of blocks.
    assert blocks[-1] - blocks[0] < 1_000, f"memory grows: {blocks}"


def _next(requests: Iterator[MixedRequest], count: int) -> Iterator[MixedRequest]:
    for _ in range(count):
        yield next(requests)


class EngineEncoder(TableEncoder):
    """The same table behind vLLM's engine, which dies whenever ``every`` texts were asked of it."""

    def __init__(self, texts: Sequence[str], every: int) -> None:
        super().__init__(texts)
        self.vllm = FakeVllm()
        self._engine = VllmEngine(self.vllm.library(), {"model": "table"}, width=WIDTH, pass_seconds=60.0)
        self._every = every
        self._seen = 0
        self._in_order = list(self.vectors.values())

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        prompts = [np.array([FIRST_TOKEN + text.token_ids[0]]) for text in texts]
        before, self._seen = self._seen, self._seen + len(texts)
        if before // self._every != self._seen // self._every:
            prompts[0] = np.array([FakeVllm.KILL])
        pooled = self._engine.pool(prompts, {"task": "embed"})
        numbers = pooled.rows[:, 0].astype(int) - FIRST_TOKEN
        return EncodedBatch(np.stack([self._in_order[number] for number in numbers]), pooled.errors)

    def close(self) -> None:
        self._engine.close()


FIRST_TOKEN = 100
"""Lower ones make the fake vLLM misbehave."""


async def test_an_engine_whose_processes_keep_dying_answers_everybody_in_kind() -> None:
    count = 3_000
    encoder = EngineEncoder(TEXTS, every=500)
    ledger = AnswerLedger(count, encoder.vectors)
    async with running(encoder, CountingObserver()) as batcher:
        callers = MixedCallers(batcher, ledger)
        await callers.send(Mixture().requests(count, TEXTS, seed=12))
        assert_nothing_is_left(batcher)
    encoder.close()
    assert (ledger.faults, ledger.unanswered) == ([], 0)
    assert len(encoder.vllm.engines) >= 4, "it was never killed and started again"
    assert ledger.outcomes["right"] > ledger.outcomes[CRASHED] > 0
    assert not encoder.vllm.running


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ([Answer(np.eye(32, dtype=np.float32)[0])], "cosine"),
        ([Answer(reason="INTERNAL")], "INTERNAL"),
        ([Answer(reason=CANCELLED)], CANCELLED),
        ([Answer()], "neither"),
        ([], "0 answers"),
    ],
)
def test_the_ledger_sees_a_wrong_answer(answers: list[Answer], fault: str) -> None:
    table = TableEncoder(TEXTS)
    ledger = AnswerLedger(2, table.vectors)
    request = MixedRequest(0, (TEXTS[0],), Fate.SERVED, WorkClass.INGEST, 0.0)
    ledger.close(request, answers)
    assert ledger.fault_count == 1 and fault in ledger.faults[0]
    assert ledger.unanswered == 1
    ledger.close(request, [Answer(table.vectors[TEXTS[0]])])
    assert "twice" in ledger.faults[1]
