"""The reranker's thread: probes, failures, and what is told of them."""

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.reranker import RerankedBatch
from precall.engine.errors import InvalidInput, ModelUnavailable, NumericsError, PrecallError
from precall.engine.retrieval.reranking import RerankingSettings, RerankQueue
from tests.fakes.reranker import WordReranker
from tests.retrieval.asking import rerank


class HeldReranker(WordReranker):
    """A pass takes a permit, of which there are plenty until ``hold_all``; ``entered`` says that one came."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = threading.Semaphore(1_000)
        self.entered = threading.Semaphore(0)
        self.passes = 0
        self.numbers: float | None = None

    def hold_all(self) -> None:
        self.permits = threading.Semaphore(0)

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.passes += 1
        self.entered.release()
        assert self.permits.acquire(timeout=10)
        batch = super().score(pairs)
        if self.numbers is None:
            return batch
        errors: dict[int, PrecallError] = {row: NumericsError("NaN") for row in range(len(pairs))}
        return RerankedBatch(np.zeros(len(pairs), np.float32), errors)


@pytest.fixture
def reranker() -> HeldReranker:
    return HeldReranker()


def heard_by(queue: RerankQueue) -> list[str | None]:
    heard: list[str | None] = []
    queue.listen(lambda: heard.append(None if queue.fault is None else queue.fault.reason))
    return heard


async def test_a_probe_is_a_real_pass_and_says_whether_the_model_works(reranker: HeldReranker) -> None:
    queue = RerankQueue(reranker)
    assert queue.fault is not None
    await queue.probe()
    assert reranker.passes == 1 and queue.fault is None
    reranker.fault = RuntimeError("device lost")
    with pytest.raises(ModelUnavailable, match="RuntimeError"):
        await queue.probe()
    assert queue.fault is not None
    reranker.fault = None
    await queue.probe()
    assert queue.fault is None


async def test_ordinary_passes_are_heard_when_they_fail_and_when_they_work_again(
    reranker: HeldReranker,
) -> None:
    queue = RerankQueue(reranker)
    await queue.probe()
    heard = heard_by(queue)
    reranker.fault = MemoryError()
    (document,) = (await rerank(queue, "tea", ["tea"])).documents
    assert document.error is not None and document.error.metadata == {"cause": "out_of_memory"}
    assert heard == ["MODEL_UNAVAILABLE"]
    reranker.fault = None
    await rerank(queue, "tea", ["tea"])
    await rerank(queue, "tea", ["tea"])
    assert heard == ["MODEL_UNAVAILABLE", None]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
async def test_whatever_a_pass_raises_the_thread_goes_on(
    reranker: HeldReranker, error: BaseException
) -> None:
    queue = RerankQueue(reranker)
    reranker.fault = error  # type: ignore[assignment]
    (document,) = (await rerank(queue, "tea", ["tea"])).documents
    assert isinstance(document.error, ModelUnavailable)
    reranker.fault = None
    assert (await rerank(queue, "tea", ["tea"])).documents[0].score == 1.0


async def test_a_failure_that_its_caller_did_not_wait_for_is_heard_all_the_same(
    reranker: HeldReranker,
) -> None:
    queue = RerankQueue(reranker)
    await queue.probe()
    assert reranker.entered.acquire(blocking=False)
    heard = heard_by(queue)
    reranker.hold_all()
    task = asyncio.create_task(rerank(queue, "tea", ["tea"]))
    assert await asyncio.to_thread(reranker.entered.acquire, timeout=10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    reranker.fault = RuntimeError("device lost")
    reranker.permits.release(10)
    with pytest.raises(ModelUnavailable):  # the next one in line, so the first is told of before it
        await queue.probe()
    assert heard == ["MODEL_UNAVAILABLE"] and reranker.passes == 3


async def test_a_pass_of_unsound_scores_alone_says_nothing_of_the_device(reranker: HeldReranker) -> None:
    queue = RerankQueue(reranker)
    await queue.probe()
    reranker.numbers = float("nan")
    (document,) = (await rerank(queue, "tea", ["tea"])).documents
    assert isinstance(document.error, NumericsError) and queue.fault is None
    with pytest.raises(NumericsError):
        await queue.probe()
    assert isinstance(queue.fault, NumericsError)


async def test_a_device_that_hangs_is_found_by_the_probe(reranker: HeldReranker) -> None:
    queue = RerankQueue(reranker, RerankingSettings(probe_seconds=0.05))
    await queue.probe()
    reranker.hold_all()
    with pytest.raises(ModelUnavailable, match="did not answer"):
        await queue.probe()
    assert queue.fault is not None
    reranker.permits.release(10)
    await rerank(queue, "tea", ["tea"])
    assert queue.fault is None


async def test_a_probe_that_only_waits_its_turn_is_no_fault(
    reranker: HeldReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long line before the device is not a dead device: passes of others work meanwhile."""
    queue = RerankQueue(reranker)
    await queue.probe()
    timeouts: list[asyncio.Timeout] = []
    make = asyncio.timeout

    def by_hand(_: float) -> asyncio.Timeout:
        timeouts.append(make(None))
        return timeouts[-1]

    monkeypatch.setattr(asyncio, "timeout", by_hand)
    reranker.hold_all()
    first = asyncio.create_task(rerank(queue, "tea", ["tea"]))
    second = asyncio.create_task(rerank(queue, "tea", ["tea"]))
    await asyncio.create_task(rerank(queue, "tea", [""]))  # read after those two, which now are in line
    probe = asyncio.create_task(queue.probe())
    while not timeouts:  # noqa: ASYNC110 - the probe tells nobody that it has begun
        await asyncio.sleep(0)
    reranker.permits.release()
    await first
    timeouts[0].reschedule(asyncio.get_running_loop().time())
    await probe
    assert queue.fault is None and not second.done()
    reranker.permits.release(10)
    await second


@pytest.mark.parametrize("error", [InvalidInput("cannot read"), TypeError("cannot read")])
async def test_a_probe_that_cannot_be_read_is_a_fault(
    reranker: HeldReranker, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> TokenizedText:
        raise error

    queue = RerankQueue(reranker)
    await queue.probe()
    monkeypatch.setattr(reranker, "tokenize", broken)
    with pytest.raises(PrecallError):
        await queue.probe()
    assert queue.fault is not None
