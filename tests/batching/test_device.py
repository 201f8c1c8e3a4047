"""Two workers of one model: a conversation never waits for the batch of another class."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.device_thread import BatchResult
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import ModelUnavailable, Overloaded

from .conftest import CARD, FakeEncoder

CONVERSATION, PREFETCH, INGEST = WorkClass
SETTINGS = BatchingSettings(max_waiting_tokens=20, tenant_share=1.0, probe_seconds=5.0)
HUNG_SECONDS = 20.0
"""After it a test fails instead of standing still; nothing takes nearly as long."""


class TwoWorkers(FakeEncoder):
    """``background`` is the device of the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.background = FakeEncoder()
        self.background_closed = False

    def for_background(self) -> FakeEncoder:
        def close() -> None:
            self.background_closed = True

        self.background.close = close  # type: ignore[method-assign]
        return self.background


@pytest.fixture
def encoder() -> TwoWorkers:
    return TwoWorkers()


@pytest_asyncio.fixture
async def batcher(encoder: TwoWorkers) -> AsyncIterator[Batcher]:
    batcher = Batcher(encoder, SETTINGS)
    await batcher.start()
    yield batcher
    encoder.open_device()
    encoder.background.open_device()
    await batcher.close()


async def embed(batcher: Batcher, work_class: WorkClass, *texts: str) -> list[EmbeddingOutcome]:
    async with asyncio.timeout(HUNG_SECONDS):
        return await batcher.embed(texts, TextRole.DOCUMENT, tenant="acme", work_class=work_class)


async def hold_background(batcher: Batcher, encoder: TwoWorkers) -> "asyncio.Task[list[EmbeddingOutcome]]":
    """Put a text on the background's device and keep it there; returns when it has arrived."""
    while encoder.background.began.acquire(blocking=False):
        pass
    encoder.background.close_device()
    task = asyncio.create_task(embed(batcher, INGEST, "holds the background"))
    assert await asyncio.to_thread(encoder.background.began.acquire, timeout=HUNG_SECONDS)
    return task


async def test_a_conversation_is_answered_while_another_class_is_on_the_device(
    batcher: Batcher, encoder: TwoWorkers
) -> None:
    held = await hold_background(batcher, encoder)
    (outcome,) = await embed(batcher, CONVERSATION, "now")
    assert outcome.error is None and not held.done()
    encoder.background.open_device()
    assert (await held)[0].error is None


async def test_each_worker_computes_its_classes_and_no_other(batcher: Batcher, encoder: TwoWorkers) -> None:
    encoder.batches.clear()
    encoder.background.batches.clear()
    await embed(batcher, CONVERSATION, "one")
    assert (len(encoder.batches), len(encoder.background.batches)) == (1, 0)
    await embed(batcher, PREFETCH, "two")
    await embed(batcher, INGEST, "three")
    assert (len(encoder.batches), len(encoder.background.batches)) == (1, 2)


async def test_a_probe_proves_both_workers(batcher: Batcher, encoder: TwoWorkers) -> None:
    for device in (encoder, encoder.background):
        device.fail_next = RuntimeError("lost")
        with pytest.raises(ModelUnavailable):
            await batcher.probe()
        assert not batcher.healthy
        await batcher.probe()
        assert batcher.healthy


async def test_a_pass_of_one_worker_does_not_hide_the_fault_of_the_other(
    batcher: Batcher, encoder: TwoWorkers
) -> None:
    encoder.background.fail_next = RuntimeError("lost")
    (failed,) = await embed(batcher, INGEST, "fails")
    assert isinstance(failed.error, ModelUnavailable)
    assert (await embed(batcher, CONVERSATION, "works"))[0].error is None
    assert not batcher.healthy
    assert (await embed(batcher, INGEST, "works again"))[0].error is None
    assert batcher.healthy


async def test_closing_computes_what_waits_for_either_worker_and_closes_the_second(
    batcher: Batcher, encoder: TwoWorkers
) -> None:
    held = await hold_background(batcher, encoder)
    waiting = asyncio.create_task(embed(batcher, PREFETCH, "waits"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    encoder.background.open_device()
    await closing
    assert [(await task)[0].error for task in (held, waiting)] == [None, None]
    assert encoder.background_closed


async def test_what_a_full_queue_would_refuse_never_reaches_the_tokenizer(
    batcher: Batcher, encoder: TwoWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await hold_background(batcher, encoder)
    waiting = asyncio.create_task(embed(batcher, INGEST, "a b c d e f g h i j", "k l m n o p q r s"))
    while batcher.waiting_tokens != 19:  # noqa: ASYNC110 - the queue tells nobody that it grew
        await asyncio.sleep(0)
    read: list[str] = []
    tokenize = encoder.tokenize

    def recording(text: str, role: TextRole, *, truncate: bool, instruction: str | None = None) -> object:
        read.append(text)
        return tokenize(text, role, truncate=truncate, instruction=instruction)

    monkeypatch.setattr(encoder, "tokenize", recording)
    with pytest.raises(Overloaded) as caught:
        await embed(batcher, INGEST, "two words")
    assert caught.value.retry_after_seconds > 0
    assert read == []
    too_long = " ".join(["word"] * (CARD.max_tokens + 1))
    (outcome,) = await embed(batcher, INGEST, too_long)  # an error of its own, full queue or not
    assert outcome.error is not None and outcome.error.reason == "TEXT_TOO_LONG"
    (served,) = await embed(batcher, CONVERSATION, "two words")  # its class has room of its own
    assert served.error is None
    encoder.background.open_device()
    await asyncio.gather(held, waiting)


async def test_a_conversation_gets_its_own_pass_of_a_text_that_runs_for_a_patient_class(
    batcher: Batcher, encoder: TwoWorkers
) -> None:
    held = await hold_background(batcher, encoder)
    (outcome,) = await embed(batcher, CONVERSATION, "holds the background")
    assert outcome.error is None and not held.done()
    encoder.background.open_device()
    assert (await held)[0].error is None


async def test_a_turn_that_fails_once_costs_nobody_his_answer(
    batcher: Batcher, encoder: TwoWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = batcher._queue.take
    failures = [MemoryError(), RuntimeError("odd")]

    def failing(classes: object) -> object:
        if failures:
            raise failures.pop()
        return take(classes)  # type: ignore[arg-type]

    monkeypatch.setattr(batcher._queue, "take", failing)
    assert (await embed(batcher, CONVERSATION, "text"))[0].error is None
    assert failures == [] and batcher.healthy


async def test_a_completion_that_fails_costs_nobody_his_answer(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        def broken(*_: object) -> None:
            raise MemoryError

        patched.setattr(batcher._queue, "complete", broken)
        assert (await embed(batcher, CONVERSATION, "text"))[0].error is None
    assert (await embed(batcher, CONVERSATION, "text"))[0].error is None
    assert batcher._queue.is_idle


async def test_a_row_that_cannot_be_copied_fails_its_text_alone(
    batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = BatchResult.row

    def failing(self: BatchResult, number: int) -> object:
        if number == 0:
            raise MemoryError
        return row(self, number)

    monkeypatch.setattr(BatchResult, "row", failing)
    outcomes = await embed(batcher, CONVERSATION, "one", "two")
    assert sum(outcome.error is None for outcome in outcomes) <= 1
    assert all(outcome.error is None or outcome.error.reason == "MODEL_UNAVAILABLE" for outcome in outcomes)


async def test_a_worker_that_cannot_go_on_answers_all_and_is_known_to_be_gone(
    batcher: Batcher, encoder: TwoWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await hold_background(batcher, encoder)
    heard: list[bool] = []
    batcher.listen(lambda: heard.append(batcher.healthy))

    def broken(classes: object) -> object:
        raise MemoryError

    monkeypatch.setattr(batcher._queue, "take", broken)
    (lost,) = await embed(batcher, CONVERSATION, "text")
    (also,) = await held  # of the other worker: it would not be started again alone
    for outcome in (lost, also):
        assert isinstance(outcome.error, ModelUnavailable)
    assert heard == [False] and not batcher.healthy
    with pytest.raises(ModelUnavailable):
        await embed(batcher, INGEST, "more")
    monkeypatch.undo()
    encoder.background.open_device()
    async with asyncio.timeout(HUNG_SECONDS):
        await batcher.close()
    assert not batcher._answers
