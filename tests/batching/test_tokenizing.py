"""Reading texts: odd ones, late ones, and those whose caller has gone."""

import asyncio
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from precall.engine.batching.admission import fewest_tokens
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.tokenizing import Reading, Tokenizing
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.errors import (
    DeadlineExceeded,
    Draining,
    InvalidInput,
    ModelUnavailable,
    Overloaded,
    TextTooLong,
)

ON_A_THREAD = BatchingSettings(inline_texts=0)
QUERY = Reading(TextRole.QUERY)


class WatchedEncoder:
    """Notes what it reads; ``gate`` closed holds the one that it has in hand, and ``faulty`` breaks it."""

    card = ModelCard("watched", "1", "0" * 64, dimension=2, max_tokens=9, pooling=Pooling.MEAN)

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.read: list[tuple[str, str | None]] = []

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        self.read.append((text, instruction))
        self.entered.set()
        assert self.gate.wait(10)
        if text == "faulty":
            raise RuntimeError("the library's own")
        return TokenizedText(np.zeros(1, np.int64), TokenUsage(1, 1))

    def encode(self, texts: object) -> EncodedBatch:
        raise AssertionError("nothing is encoded here")

    def close(self) -> None: ...


@pytest.fixture
def encoder() -> WatchedEncoder:
    return WatchedEncoder()


@pytest.mark.parametrize("settings", [BatchingSettings(), ON_A_THREAD], ids=["inline", "thread"])
async def test_a_text_that_breaks_the_tokenizer_fails_alone(encoder, settings) -> None:
    good, faulty, also = await Tokenizing(encoder, settings, time.monotonic).prepare(
        ["good", "faulty", "also"], QUERY
    )
    assert good.text is not None and also.text is not None
    assert isinstance(faulty.error, InvalidInput) and "RuntimeError" in faulty.error.message


@pytest.mark.parametrize("settings", [BatchingSettings(), ON_A_THREAD], ids=["inline", "thread"])
@pytest.mark.parametrize("deadline", [100.0, 0.0, -1.0, float("-inf")])
async def test_a_text_whose_deadline_has_passed_is_not_read(encoder, settings, deadline: float) -> None:
    tokenizing = Tokenizing(encoder, settings, lambda: 100.0)
    (late,) = await tokenizing.prepare(["late"], Reading(TextRole.QUERY, deadline=deadline))
    assert isinstance(late.error, DeadlineExceeded) and encoder.read == []


@pytest.mark.parametrize("deadline", [None, 100.5, float("inf")])
async def test_one_in_time_is_read(encoder, deadline: float | None) -> None:
    tokenizing = Tokenizing(encoder, BatchingSettings(), lambda: 100.0)
    (timely,) = await tokenizing.prepare(["timely"], Reading(TextRole.QUERY, deadline=deadline))
    assert timely.text is not None


def test_a_deadline_that_is_no_number_is_refused() -> None:
    """Compared with nothing, it would stand at the head of the queue's deadlines and hold back all others."""
    with pytest.raises(InvalidInput, match="not a number"):
        Reading(TextRole.QUERY, deadline=float("nan"))


async def test_nobody_reads_on_for_a_caller_who_has_gone(encoder) -> None:
    tokenizing = Tokenizing(encoder, ON_A_THREAD, time.monotonic)
    encoder.gate.clear()
    task = asyncio.create_task(tokenizing.prepare(["first", "second", "third"], QUERY))
    assert await asyncio.to_thread(encoder.entered.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    encoder.gate.set()
    await asyncio.gather(*(tokenizing.prepare(["after"], QUERY) for _ in range(2)))  # both threads are free
    assert ("first", None) in encoder.read and ("second", None) not in encoder.read


async def test_an_instruction_counts_with_every_text(encoder) -> None:
    settings = BatchingSettings(max_text_characters=10, inline_characters=18)
    tokenizing = Tokenizing(encoder, settings, time.monotonic)
    told = Reading(TextRole.QUERY, instruction="12345")
    fits, over = await tokenizing.prepare(["67890", "678901"], told)
    assert fits.text is not None and encoder.read == [("67890", "12345")]
    assert isinstance(over.error, TextTooLong)
    assert over.error.metadata == {"characters": "11", "character_limit": "10"}
    assert "with its instruction" in over.error.message


async def test_many_texts_with_a_long_instruction_are_not_read_on_the_event_loop(encoder) -> None:
    threads: set[str] = set()
    tokenize = encoder.tokenize

    def noting(*arguments: object, **named: object) -> TokenizedText:
        threads.add(threading.current_thread().name)
        return tokenize(*arguments, **named)

    encoder.tokenize = noting
    tokenizing = Tokenizing(encoder, BatchingSettings(inline_characters=100), time.monotonic)
    await tokenizing.prepare(["a", "b"], Reading(TextRole.QUERY, instruction="x" * 50))
    assert threads and all(name.startswith("precall-tokenizer") for name in threads)


def ingest(tenant: str, **how: object) -> Reading:
    return Reading(TextRole.DOCUMENT, tenant=tenant, work_class=WorkClass.INGEST, **how)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the encoder's threads tell the event loop nothing
            await asyncio.sleep(0)


async def test_a_tenant_with_much_to_read_leaves_others_their_turn(encoder) -> None:
    tokenizing = Tokenizing(encoder, ON_A_THREAD, time.monotonic)
    encoder.gate.clear()
    long = [letter * 60_000 for letter in "abcd"]
    many = [asyncio.create_task(tokenizing.prepare(long, ingest("many", truncate=True))) for _ in range(10)]
    await until(lambda: len(encoder.read) == 2)  # both threads have a text in hand
    one = asyncio.create_task(tokenizing.prepare(["few"], ingest("few")))
    await until(lambda: tokenizing.waiting_characters == 10 * 4 * 60_000 + 3)
    encoder.gate.set()
    await asyncio.gather(one, *many)
    texts = [text for text, _ in encoder.read]
    assert len(texts) == 41 and texts.index("few") < 4  # one of the next two texts begun
    assert tokenizing.waiting_characters == 0


async def test_conversations_are_read_while_both_other_threads_are_held(encoder) -> None:
    tokenizing = Tokenizing(encoder, ON_A_THREAD, time.monotonic)
    encoder.gate.clear()
    held = [asyncio.create_task(tokenizing.prepare(["held"], ingest("acme"))) for _ in range(2)]
    await until(lambda: len(encoder.read) == 2)
    talking = asyncio.create_task(tokenizing.prepare(["now"], Reading(TextRole.QUERY, tenant="acme")))
    await until(lambda: ("now", None) in encoder.read)
    encoder.gate.set()
    await asyncio.gather(talking, *held)


@pytest.mark.parametrize("over", ["tenant", "class"])
async def test_more_characters_than_may_wait_are_refused(encoder, over: str) -> None:
    settings = BatchingSettings(inline_texts=0, max_waiting_characters=100)
    tokenizing = Tokenizing(encoder, settings, time.monotonic)
    encoder.gate.clear()
    held = [asyncio.create_task(tokenizing.prepare(["x" * 75], ingest("acme")))]
    if over == "class":
        held.append(asyncio.create_task(tokenizing.prepare(["x" * 25], ingest("other"))))
    await until(lambda: len(encoder.read) == len(held))
    with pytest.raises(Overloaded, match="characters") as caught:
        await tokenizing.prepare(["x"], ingest("acme" if over == "tenant" else "third"))
    assert caught.value.retry_after_seconds > 0
    talking = asyncio.create_task(tokenizing.prepare(["x"], Reading(TextRole.QUERY)))  # another class
    await until(lambda: len(encoder.read) == len(held) + 1)
    encoder.gate.set()
    await asyncio.gather(talking, *held)
    with pytest.raises(InvalidInput, match="split"):
        await tokenizing.prepare(["x" * 50, "y" * 26], ingest("acme"))
    assert tokenizing.waiting_characters == 0


async def test_what_is_left_of_a_request_at_the_end_is_refused(encoder) -> None:
    tokenizing = Tokenizing(encoder, ON_A_THREAD, time.monotonic)
    encoder.gate.clear()
    reading = asyncio.create_task(tokenizing.prepare(["x" * 60_000, "y" * 60_000], ingest("acme")))
    await until(lambda: len(encoder.read) == 1)
    tokenizing.close()
    encoder.gate.set()
    with pytest.raises(Draining):
        await reading
    assert len(encoder.read) == 1 and tokenizing.waiting_characters == 0


async def test_whoever_is_cancelled_in_line_leaves_no_characters_behind(encoder) -> None:
    tokenizing = Tokenizing(encoder, ON_A_THREAD, time.monotonic)
    encoder.gate.clear()
    tasks = [asyncio.create_task(tokenizing.prepare(["x" * 9], ingest("acme"))) for _ in range(5)]
    await until(lambda: len(encoder.read) == 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert tokenizing.waiting_characters == 0
    encoder.gate.set()
    assert len(await tokenizing.prepare(["after"], ingest("acme"))) == 1


async def test_a_long_text_over_the_limit_by_its_words_never_reaches_the_tokenizer(encoder) -> None:
    tokenizing = Tokenizing(encoder, BatchingSettings(), time.monotonic)
    long = "word " * 5_000
    (refused,) = await tokenizing.prepare([long], ingest("acme"))
    assert isinstance(refused.error, TextTooLong) and encoder.read == []
    (cut,) = await tokenizing.prepare([long], ingest("acme", truncate=True))
    assert cut.error is None and len(encoder.read) == 1


@pytest.mark.parametrize("unit", ["\u200b ", ". ", "a\x1c", "\u0301 ", "aa"])
async def test_what_a_tokenizer_may_drop_or_join_is_left_to_it(encoder, unit: str) -> None:
    tokenizing = Tokenizing(encoder, BatchingSettings(), time.monotonic)
    (read,) = await tokenizing.prepare([unit * 15_000], ingest("acme"))
    assert read.text is not None


async def test_words_of_much_text_are_counted_beside_the_event_loop(encoder, monkeypatch) -> None:
    threads: list[str] = []

    def noting(*arguments: object, **named: object) -> int:
        threads.append(threading.current_thread().name)
        return fewest_tokens(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("precall.engine.batching.tokenizing.fewest_tokens", noting)
    tokenizing = Tokenizing(encoder, BatchingSettings(), time.monotonic)
    heard: list[int] = []
    await tokenizing.prepare(["a b c"], ingest("acme"), heard.append)
    await tokenizing.prepare(["d e " * 20_000] * 2, ingest("acme", truncate=True), heard.append)
    assert threads[0] == "MainThread" and threads[1].startswith("precall-tokenizer")
    assert heard == [3, 18]  # at most 9 tokens of each


def test_counting_stops_when_there_are_enough_and_skips_what_is_refused_anyway() -> None:
    class Counted(str):
        splits = 0

        def split(self, *arguments: object) -> list[str]:  # type: ignore[override]
            Counted.splits += 1
            return super().split(*arguments)  # type: ignore[arg-type]

    texts = [Counted("one two three")] * 10
    assert fewest_tokens(texts, 9, truncate=False, max_characters=20, enough=5) == 6
    assert Counted.splits == 2
    assert fewest_tokens(texts, 9, truncate=False, max_characters=5, enough=5) == 0
    assert Counted.splits == 2


def threads_of_tokenizers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("precall-tokenizer")]


def test_all_threads_are_there_from_the_start(encoder) -> None:
    before = set(threads_of_tokenizers())
    tokenizing = Tokenizing(encoder, BatchingSettings(), time.monotonic)
    tokenizing.start()
    assert len(set(threads_of_tokenizers()) - before) == 4
    tokenizing.close()


def test_a_thread_that_the_system_refuses_is_told_at_the_start(encoder, monkeypatch) -> None:
    tokenizing = Tokenizing(encoder, BatchingSettings(), time.monotonic)
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def refusing(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refusing)
        with pytest.raises(ModelUnavailable, match="can't start new thread"):
            tokenizing.start()
    tokenizing.close()
    started[0].join(10)
    assert not started[0].is_alive()
