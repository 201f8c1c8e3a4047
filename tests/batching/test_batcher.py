"""The batcher against a fake device that stands still until the test lets it go on."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.observer import SilentObserver
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Batch, WorkClass
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText
from precall.engine.errors import (
    DeadlineExceeded,
    Draining,
    InvalidInput,
    ModelUnavailable,
    NotSupported,
    NumericsError,
    Overloaded,
    PrecallError,
    TextTooLong,
)

from .conftest import FakeEncoder, vector_of

SETTINGS = BatchingSettings(max_waiting_tokens=100, tenant_share=1.0, probe_seconds=5.0)


class RecordingObserver:
    def __init__(self) -> None:
        self.waits: list[WorkClass] = []
        self.batches: list[tuple[int, bool]] = []
        self.expired_count = self.cancelled_count = self.refused_count = 0

    def waited(self, work_class: WorkClass, seconds: float) -> None:
        assert seconds >= 0.0
        self.waits.append(work_class)

    def finished(self, batch: Batch, device_seconds: float, *, failed: bool) -> None:
        assert device_seconds >= 0.0
        self.batches.append((batch.tokens, failed))

    def expired(self, count: int) -> None:
        self.expired_count += count

    def cancelled(self, count: int) -> None:
        self.cancelled_count += count

    def refused(self, count: int) -> None:
        self.refused_count += count


@pytest.fixture
def observer() -> RecordingObserver:
    return RecordingObserver()


@pytest_asyncio.fixture
async def batcher(encoder: FakeEncoder, observer: RecordingObserver) -> AsyncIterator[Batcher]:
    batcher = Batcher(encoder, SETTINGS, observer)
    await batcher.start()
    encoder.batches.clear()
    observer.batches.clear()
    observer.waits.clear()
    assert encoder.began.acquire(blocking=False)
    yield batcher
    encoder.open_device()
    await batcher.close()


async def embed(batcher: Batcher, *texts: str, deadline: float | None = None) -> list[EmbeddingOutcome]:
    return await batcher.embed(
        texts, TextRole.DOCUMENT, tenant="acme", work_class=WorkClass.CONVERSATION, deadline=deadline
    )


async def hold_device(batcher: Batcher, encoder: FakeEncoder) -> "asyncio.Task[list[EmbeddingOutcome]]":
    """Put one text on the device and keep it there; returns when it has arrived."""
    encoder.close_device()
    task = asyncio.create_task(embed(batcher, "holds the device"))
    await asyncio.to_thread(encoder.began.acquire)
    return task


def expected(encoder: FakeEncoder, text: str) -> np.ndarray:
    return vector_of(encoder.tokenize(text, TextRole.DOCUMENT, truncate=True))


async def until_waiting(batcher: Batcher, tokens: int) -> None:
    """Let other tasks run until that much is queued."""
    while batcher.waiting_tokens != tokens:  # noqa: ASYNC110 - the queue tells nobody that it grew
        await asyncio.sleep(0)


async def test_each_text_gets_its_own_vector(batcher: Batcher, encoder: FakeEncoder) -> None:
    texts = [f"text number {number}" for number in range(30)]
    outcomes = await embed(batcher, *texts)
    for text, outcome in zip(texts, outcomes, strict=True):
        assert np.array_equal(outcome.require_vector(), expected(encoder, text))
        assert not outcome.require_vector().flags.writeable
        assert outcome.usage is not None
        assert (outcome.usage.given, outcome.truncated) == (3, False)


async def test_embed_one_returns_the_vector_or_raises_the_texts_error(
    batcher: Batcher, encoder: FakeEncoder
) -> None:
    one = batcher.embed_one("hello", TextRole.QUERY, tenant="acme", work_class=WorkClass.CONVERSATION)
    assert np.array_equal(await one, expected(encoder, "hello"))
    with pytest.raises(InvalidInput):
        await batcher.embed_one(" ", TextRole.QUERY, tenant="acme", work_class=WorkClass.CONVERSATION)


async def test_a_lone_text_goes_to_an_idle_device_alone_and_sets_no_timer(
    batcher: Batcher, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_timer(*_: object, **__: object) -> None:
        raise AssertionError("the idle path must not wait for a timer")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", no_timer)
    monkeypatch.setattr(loop, "call_at", no_timer)
    waits: list[float | None] = []
    wait_for = threading.Condition.wait_for
    monkeypatch.setattr(
        threading.Condition,
        "wait_for",
        lambda self, predicate, timeout=None: (waits.append(timeout), wait_for(self, predicate, timeout))[1],
    )
    await embed(batcher, "alone")
    assert [len(batch) for batch in encoder.batches] == [1]
    assert set(waits) <= {None}


async def test_what_arrives_while_the_device_is_busy_goes_together(
    batcher: Batcher, encoder: FakeEncoder
) -> None:
    held = await hold_device(batcher, encoder)
    tasks = [asyncio.create_task(embed(batcher, f"text {number}")) for number in range(5)]
    await until_waiting(batcher, 10)
    encoder.open_device()
    await asyncio.gather(held, *tasks)
    assert [len(batch) for batch in encoder.batches] == [1, 5]


async def test_texts_are_tokenised_while_a_batch_runs(batcher: Batcher, encoder: FakeEncoder) -> None:
    held = await hold_device(batcher, encoder)
    encoder.threads_of_tokenizer.clear()
    many = asyncio.create_task(embed(batcher, *(f"text {number}" for number in range(20))))
    await until_waiting(batcher, 40)
    assert all(name.startswith("precall-tokenizer") for name in encoder.threads_of_tokenizer)
    assert not held.done()
    encoder.open_device()
    await asyncio.gather(held, many)


@pytest.mark.parametrize(("texts", "inline"), [(1, True), (4, True), (5, False)])
async def test_only_a_few_short_texts_are_tokenised_on_the_event_loop(
    batcher: Batcher, encoder: FakeEncoder, texts: int, inline: bool
) -> None:
    encoder.threads_of_tokenizer.clear()
    await embed(batcher, *(f"text {number}" for number in range(texts)))
    assert (encoder.threads_of_tokenizer == {"MainThread"}) is inline


async def test_one_long_text_is_tokenised_off_the_event_loop(batcher: Batcher, encoder: FakeEncoder) -> None:
    encoder.threads_of_tokenizer.clear()
    (outcome,) = await embed(batcher, "word " * 1_000)
    assert isinstance(outcome.error, TextTooLong)
    assert "MainThread" not in encoder.threads_of_tokenizer


async def test_one_bad_text_fails_alone(batcher: Batcher) -> None:
    good, empty, long, also_good = await embed(batcher, "good", "  ", "word " * 33, "also good")
    assert good.vector is not None
    assert also_good.vector is not None
    assert isinstance(empty.error, InvalidInput)
    assert isinstance(long.error, TextTooLong)


async def test_truncation_is_only_done_when_asked_and_says_so(batcher: Batcher) -> None:
    (outcome,) = await batcher.embed(
        ["word " * 320], TextRole.DOCUMENT, tenant="acme", work_class=WorkClass.INGEST, truncate=True
    )
    assert outcome.vector is not None
    assert outcome.usage is not None
    assert (outcome.usage.given, outcome.usage.used, outcome.truncated) == (320, 32, True)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, 3.0])
async def test_a_bad_vector_is_an_error_of_its_text_alone(
    batcher: Batcher, encoder: FakeEncoder, value: float
) -> None:
    poisoned = encoder.tokenize("poisoned", TextRole.DOCUMENT, truncate=False).token_ids

    def spoil(vectors: np.ndarray, texts: list[TokenizedText]) -> np.ndarray:
        rows = [row for row, text in enumerate(texts) if np.array_equal(text.token_ids, poisoned)]
        vectors[rows] *= np.float32(value)
        return vectors

    encoder.spoil = spoil
    good, bad, also_good = await embed(batcher, "good", "poisoned", "also")
    assert isinstance(bad.error, NumericsError)
    assert bad.vector is None
    assert np.array_equal(good.require_vector(), expected(encoder, "good"))
    assert also_good.vector is not None
    assert batcher.healthy


@pytest.mark.parametrize(
    "crash", [RuntimeError("device lost"), MemoryError(), SystemExit(1), KeyboardInterrupt()]
)
async def test_a_crash_fails_its_batch_and_the_next_one_is_served(
    batcher: Batcher, encoder: FakeEncoder, observer: RecordingObserver, crash: BaseException
) -> None:
    encoder.fail_next = crash
    outcomes = await embed(batcher, "one", "two", "")
    assert [type(outcome.error) for outcome in outcomes] == [ModelUnavailable, ModelUnavailable, InvalidInput]
    assert not batcher.healthy
    assert observer.batches == [(2, True)]

    (outcome,) = await embed(batcher, "one")
    assert outcome.vector is not None
    assert batcher.healthy


async def test_wrongly_shaped_vectors_fail_the_batch(
    batcher: Batcher, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "encode", lambda texts: EncodedBatch(np.ones((1, 3), np.float32)))
    (outcome,) = await embed(batcher, "one")
    assert isinstance(outcome.error, ModelUnavailable)


async def test_a_probe_is_a_real_pass_and_says_whether_the_model_works(
    batcher: Batcher, encoder: FakeEncoder
) -> None:
    await batcher.probe()
    assert len(encoder.batches) == 1
    encoder.fail_next = RuntimeError("device lost")
    with pytest.raises(ModelUnavailable):
        await batcher.probe()
    assert not batcher.healthy
    await batcher.probe()
    assert batcher.healthy


async def test_a_model_that_answers_only_nan_is_not_healthy(batcher: Batcher, encoder: FakeEncoder) -> None:
    encoder.spoil = lambda vectors, _: vectors * np.float32("nan")
    with pytest.raises(NumericsError):
        await batcher.probe()
    await embed(batcher, "text")
    assert not batcher.healthy


async def test_a_device_that_hangs_is_found_by_the_probe(encoder: FakeEncoder) -> None:
    batcher = Batcher(encoder, BatchingSettings(probe_seconds=0.05))
    await batcher.start()
    encoder.close_device()
    with pytest.raises(ModelUnavailable, match="did not answer"):
        await batcher.probe()
    assert not batcher.healthy
    encoder.open_device()
    await batcher.probe()
    assert batcher.healthy
    await batcher.close()


async def test_a_text_whose_deadline_passes_in_the_queue_never_reaches_the_device(
    batcher: Batcher, encoder: FakeEncoder, observer: RecordingObserver
) -> None:
    held = await hold_device(batcher, encoder)
    (outcome,) = await embed(
        batcher, "too late", deadline=time.monotonic() + 0.02
    )  # answered though the device stands
    assert isinstance(outcome.error, DeadlineExceeded)
    assert batcher.waiting_tokens == 0
    assert observer.expired_count == 1
    encoder.open_device()
    await held
    await embed(batcher, "after")
    assert [len(batch) for batch in encoder.batches] == [1, 1]


async def test_a_deadline_that_has_passed_before_is_an_error(batcher: Batcher, encoder: FakeEncoder) -> None:
    held = await hold_device(batcher, encoder)
    (outcome,) = await embed(batcher, "late", deadline=time.monotonic() - 1.0)
    assert isinstance(outcome.error, DeadlineExceeded)
    encoder.open_device()
    await held


async def test_cancelling_the_caller_drops_what_it_queued(
    batcher: Batcher, encoder: FakeEncoder, observer: RecordingObserver
) -> None:
    held = await hold_device(batcher, encoder)
    task = asyncio.create_task(embed(batcher, "one two", "three four"))
    await until_waiting(batcher, 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert batcher.waiting_tokens == 0
    assert observer.cancelled_count == 2
    encoder.open_device()
    await held
    await embed(batcher, "after")
    assert [len(batch) for batch in encoder.batches] == [1, 1]


async def test_cancelling_while_on_the_device_harms_nobody_else(
    batcher: Batcher, encoder: FakeEncoder
) -> None:
    held = await hold_device(batcher, encoder)
    same = asyncio.create_task(embed(batcher, "holds the device"))
    await asyncio.sleep(0)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    encoder.open_device()
    (outcome,) = await same
    assert outcome.vector is not None
    assert not batcher._answers


async def test_the_same_text_in_flight_is_computed_once(batcher: Batcher, encoder: FakeEncoder) -> None:
    held = await hold_device(batcher, encoder)
    tasks = [asyncio.create_task(embed(batcher, "twin", "twin", "holds the device")) for _ in range(3)]
    await until_waiting(batcher, 6)
    encoder.open_device()
    await asyncio.gather(held, *tasks)
    assert [len(batch) for batch in encoder.batches] == [1, 1]
    assert batcher.counts.shared == 8


@pytest.mark.parametrize("texts", [["word " * 32], ["word " * 16, "other " * 16]])
async def test_too_much_waiting_refuses_one_text_and_many_alike(
    batcher: Batcher, encoder: FakeEncoder, observer: RecordingObserver, texts: list[str]
) -> None:
    held = await hold_device(batcher, encoder)
    waiting = asyncio.create_task(embed(batcher, *(f"{number} " + "fill " * 23 for number in range(4))))
    await until_waiting(batcher, 96)
    with pytest.raises(Overloaded) as caught:
        await embed(batcher, *texts)
    assert caught.value.retry_after_seconds > 0
    assert observer.refused_count == len(texts)
    assert batcher.waiting_tokens == 96
    encoder.open_device()
    await asyncio.gather(held, waiting)


async def test_closing_answers_what_was_admitted_and_refuses_the_rest(encoder: FakeEncoder) -> None:
    batcher = Batcher(encoder, SETTINGS)
    await batcher.start()
    assert encoder.began.acquire(blocking=False)
    held = await hold_device(batcher, encoder)
    queued = asyncio.create_task(embed(batcher, "queued"))
    await until_waiting(batcher, 1)
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    with pytest.raises(Draining):
        await embed(batcher, "too late")
    encoder.open_device()
    await closing
    assert [outcome.vector is not None for outcome in await held + await queued] == [True, True]
    assert not batcher.healthy
    await batcher.close()


async def test_a_model_that_fails_at_start_does_not_start(encoder: FakeEncoder) -> None:
    encoder.fail_next = RuntimeError("no device")
    batcher = Batcher(encoder)
    with pytest.raises(ModelUnavailable):
        await batcher.start()
    assert "precall-device" not in {thread.name for thread in threading.enumerate()}


async def test_before_start_it_is_unavailable(encoder: FakeEncoder) -> None:
    with pytest.raises(ModelUnavailable, match="start"):
        await embed(Batcher(encoder), "text")


async def test_times_and_classes_are_reported(batcher: Batcher, observer: RecordingObserver) -> None:
    (outcome,) = await embed(batcher, "one two")
    assert min(outcome.tokenize_seconds, outcome.queue_seconds, outcome.device_seconds) >= 0.0
    assert outcome.device_seconds > 0.0
    assert observer.waits == [WorkClass.CONVERSATION]
    assert observer.batches == [(2, False)]


async def test_no_texts_are_no_outcomes(batcher: Batcher) -> None:
    assert await embed(batcher) == []


async def test_nothing_is_kept_after_many_requests(batcher: Batcher, encoder: FakeEncoder) -> None:
    for number in range(50):
        await asyncio.gather(*(embed(batcher, f"{number} {each}", "") for each in range(10)))
        encoder.batches.clear()
    assert not batcher._answers
    assert batcher._queue.is_idle
    batcher._queue.check_integrity()


async def test_a_text_too_long_to_count_is_refused_before_it_is_tokenised(
    encoder: FakeEncoder, observer: RecordingObserver
) -> None:
    """Truncation allowed or not: one such text would keep a thread of the tokenizer busy for seconds."""
    batcher = Batcher(encoder, BatchingSettings(max_text_characters=50), observer)
    await batcher.start()
    seen: list[int] = []
    tokenize = encoder.tokenize

    def noting(text: str, role: TextRole, *, truncate: bool, instruction: str | None = None) -> TokenizedText:
        seen.append(len(text))
        return tokenize(text, role, truncate=truncate, instruction=instruction)

    encoder.tokenize = noting  # type: ignore[method-assign]
    try:
        for truncate in (False, True):
            fits, over = await batcher.embed(
                ["x" * 50, "x" * 51],
                TextRole.DOCUMENT,
                tenant="acme",
                work_class=WorkClass.INGEST,
                truncate=truncate,
            )
            assert fits.error is None
            assert isinstance(over.error, TextTooLong)
            assert over.error.metadata == {"characters": "51", "character_limit": "50"}
    finally:
        await batcher.close()
    assert set(seen) == {50}


async def test_an_instruction_is_the_encoders_to_take_or_refuse_for_the_request_as_a_whole(
    batcher: Batcher, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, str | None]] = []
    tokenize = encoder.tokenize

    def instructable(
        text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        if instruction == "refused":
            raise NotSupported("takes no instruction")
        read.append((text, instruction))
        return tokenize(f"{instruction} {text}", role, truncate=truncate)

    monkeypatch.setattr(encoder, "tokenize", instructable)
    told = {"tenant": "acme", "work_class": WorkClass.CONVERSATION}
    outcomes = await batcher.embed(["one", "two"], TextRole.QUERY, instruction="find", **told)
    assert read[-2:] == [("one", "find"), ("two", "find")]
    monkeypatch.undo()
    assert np.array_equal(outcomes[0].require_vector(), expected(encoder, "find one"))

    monkeypatch.setattr(encoder, "tokenize", instructable)
    with pytest.raises(NotSupported):
        await batcher.embed(["one", "two"], TextRole.QUERY, instruction="refused", **told)
    assert batcher.waiting_tokens == 0


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("-inf")])
async def test_a_deadline_of_long_ago_is_an_error_and_counted(
    batcher: Batcher, encoder: FakeEncoder, observer: RecordingObserver, deadline: float
) -> None:
    (outcome,) = await embed(batcher, "late", deadline=deadline)
    assert isinstance(outcome.error, DeadlineExceeded)
    assert encoder.batches == [] and observer.expired_count == 1


async def test_a_deadline_that_is_no_number_reaches_no_queue(batcher: Batcher) -> None:
    with pytest.raises(InvalidInput, match="not a number"):
        await embed(batcher, "text", deadline=float("nan"))
    assert (await embed(batcher, "text", deadline=float("inf")))[0].vector is not None


async def test_an_ordinary_pass_is_heard_when_it_fails_and_when_it_works_again(
    batcher: Batcher, encoder: FakeEncoder
) -> None:
    heard: list[bool] = []
    batcher.listen(lambda: heard.append(batcher.healthy))
    encoder.fail_next = MemoryError()
    (outcome,) = await embed(batcher, "one")
    assert outcome.error is not None and outcome.error.metadata == {"cause": "out_of_memory"}
    assert heard == [False] and batcher.fault is outcome.error
    await embed(batcher, "two")
    await embed(batcher, "three")
    assert heard == [False, True]


async def test_a_text_whose_vector_is_not_sound_does_not_make_the_device_look_dead(
    batcher: Batcher, encoder: FakeEncoder
) -> None:
    """Else one text that a model cannot bear would take its server out of work whenever it is sent."""
    encoder.spoil = lambda vectors, _: vectors * np.float32("nan")
    (outcome,) = await embed(batcher, "poisoned")
    assert isinstance(outcome.error, NumericsError) and batcher.healthy
    with pytest.raises(NumericsError):
        await batcher.probe()
    assert isinstance(batcher.fault, NumericsError)


@pytest.mark.parametrize("error", [InvalidInput("cannot read"), TypeError("cannot read")])
async def test_a_probe_that_cannot_be_read_is_a_fault(
    batcher: Batcher, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> TokenizedText:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(encoder, "tokenize", broken)
        with pytest.raises(PrecallError):
            await batcher.probe()
    assert not batcher.healthy
    await batcher.probe()
    assert batcher.healthy


async def test_a_probe_of_a_closed_batcher_fails_at_once(encoder: FakeEncoder) -> None:
    batcher = Batcher(encoder, BatchingSettings(probe_seconds=3_600.0))
    await batcher.start()
    await batcher.close()
    with pytest.raises(ModelUnavailable, match="not running"):
        async with asyncio.timeout(5):
            await batcher.probe()


@pytest.mark.parametrize("padded", [True, False])
async def test_padding_is_counted_only_where_it_is_computed(encoder: FakeEncoder, padded: bool) -> None:
    finished: list[Batch] = []

    class Observer(SilentObserver):
        def finished(self, batch: Batch, device_seconds: float, *, failed: bool) -> None:
            finished.append(batch)

    batcher = Batcher(encoder, BatchingSettings(padded=padded, minimum_fill=0.0), Observer())
    await batcher.start()
    await embed(batcher, "one", "one two three")
    await batcher.close()
    assert (finished[-1].tokens, finished[-1].padded_tokens) == (4, 6 if padded else 4)


async def test_no_thread_is_started_by_the_first_call_that_needs_it(batcher: Batcher) -> None:
    """A system that gives no more threads is found at the start, not when texts come."""
    before = set(threading.enumerate())
    await embed(batcher, *(f"text {number}" for number in range(20)))
    await batcher.embed(
        [f"text {number}" for number in range(20)],
        TextRole.DOCUMENT,
        tenant="acme",
        work_class=WorkClass.INGEST,
    )
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("by", ["tokens", "characters"])
async def test_a_tenant_that_fills_its_room_leaves_the_others_theirs(
    encoder: FakeEncoder, observer: RecordingObserver, by: str
) -> None:
    settings = BatchingSettings(max_waiting_tokens=100, max_waiting_characters=1_000, inline_texts=0)
    batcher = Batcher(encoder, settings, observer)
    await batcher.start()
    assert encoder.began.acquire(blocking=False)

    async def send(tenant: str, *texts: str) -> list[EmbeddingOutcome]:
        return await batcher.embed(texts, TextRole.DOCUMENT, tenant=tenant, work_class=WorkClass.CONVERSATION)

    entered, gate = threading.Event(), threading.Event()
    tokenize = encoder.tokenize

    def held(text: str, role: TextRole, *, truncate: bool, instruction: str | None = None) -> TokenizedText:
        entered.set()
        assert gate.wait(20)
        return tokenize(text, role, truncate=truncate, instruction=instruction)

    try:
        running = await hold_device(batcher, encoder)
        if by == "characters":
            encoder.tokenize = held  # type: ignore[method-assign]
        texts = {"tokens": [f"{number} " + "x " * 24 for number in range(3)], "characters": ["x" * 250] * 3}
        flood = asyncio.create_task(send("big", *texts[by]))
        if by == "tokens":
            await until_waiting(batcher, 75)
        else:
            assert await asyncio.to_thread(entered.wait, 20)
        with pytest.raises(Overloaded, match=f"{by} of this tenant"):
            await send("big", "one more")
        assert observer.refused_count == 1
        small = asyncio.create_task(send("small", "one more"))
        gate.set()
        encoder.open_device()
        outcomes = await small + await flood + await running
        assert [outcome.error for outcome in outcomes] == [None] * 5
    finally:
        gate.set()
        encoder.open_device()
        await batcher.close()
