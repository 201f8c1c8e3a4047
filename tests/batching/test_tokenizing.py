"""Reading texts: odd ones, late ones, and those whose caller has gone."""

import asyncio
import threading
import time

import numpy as np
import pytest

from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.tokenizing import Reading, Tokenizing
from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.errors import DeadlineExceeded, InvalidInput, TextTooLong

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
