"""The queue before the reranker: order, turns, limits, failures, deadlines."""

import asyncio
import threading
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.errors import (
    ConfigurationError,
    DeadlineExceeded,
    InvalidInput,
    ModelUnavailable,
    NumericsError,
    Overloaded,
    PrecallError,
    TextTooLong,
)
from precall.engine.retrieval.reranking import RerankingSettings, RerankQueue
from tests.retrieval.asking import rerank

CARD = RerankerCard("fake", "1", "0" * 64, 50, "{instruction}{query}{document}", "find")


class FakeReranker:
    """A document's score is the share of its words that stand in the query; a token is a word.

    ``gate`` closed holds every pass; ``passes`` are the scores of each.
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.passes: list[list[float]] = []
        self.failure: Exception | None = None
        self.instructions: list[str | None] = []

    @property
    def card(self) -> RerankerCard:
        return CARD

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        self.instructions.append(instruction)
        words = document.split()
        if not words:
            raise InvalidInput("empty")
        if len(words) > CARD.max_tokens and not truncate:
            raise TextTooLong("too long")
        used = words[: CARD.max_tokens]
        share = sum(word in query.split() for word in used) / len(used)
        ids = np.full(len(used), round(share * 1000), np.int64)
        return TokenizedText(ids, TokenUsage(len(words), len(used)))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.entered.set()
        assert self.gate.wait(10)
        scores = np.array([pair.token_ids[0] / 1000 for pair in pairs], np.float32)
        self.passes.append(scores.tolist())
        if self.failure is not None:
            raise self.failure
        errors: dict[int, PrecallError] = {
            row: NumericsError("not finite") for row, score in enumerate(scores) if score == 0.5
        }
        return RerankedBatch(scores, errors)

    def close(self) -> None: ...


async def held(reranker: FakeReranker) -> None:
    """Until a pass is on the device, which it cannot leave."""
    assert await asyncio.to_thread(reranker.entered.wait, 10)


async def tokenized(queue: RerankQueue) -> None:
    """Until what was asked before waits for the device: tokenising is first come, first served.

    A task of its own, so that the tasks made before it have begun when it does.
    """
    await asyncio.create_task(rerank(queue, "a", [""]))


async def test_scores_come_in_the_order_of_the_documents_with_their_errors_and_usage() -> None:
    queue = RerankQueue(FakeReranker(), RerankingSettings(pass_tokens=3, max_text_characters=400))
    documents = ["a a", "", "x", "a x", "a " * 60, "y " * 300, "a x x x"]
    answer = await rerank(queue, "a b", documents)
    assert [document.score for document in answer.documents] == [1.0, None, 0.0, None, None, None, 0.25]
    assert [document.error and document.error.reason for document in answer.documents] == [
        *(None, "INVALID_INPUT", None, "NUMERICS", "TEXT_TOO_LONG", "TEXT_TOO_LONG", None)
    ]
    assert answer.documents[3].usage == TokenUsage(2, 2)
    assert queue.waiting_characters == 0


async def test_truncation_and_the_instruction_reach_the_reranker() -> None:
    reranker = FakeReranker()
    answer = await rerank(RerankQueue(reranker), "a", ["a " * 60], instruction="judge", truncate=True)
    assert answer.documents[0].usage == TokenUsage(60, 50) and answer.documents[0].score == 1.0
    assert set(reranker.instructions) == {"judge"}


async def test_nothing_but_faults_never_reaches_the_device() -> None:
    reranker = FakeReranker()
    answer = await rerank(RerankQueue(reranker), "a", [""])
    assert answer.documents[0].error is not None and reranker.passes == []


async def test_a_short_request_gets_its_turn_between_the_passes_of_a_long_one() -> None:
    reranker = FakeReranker()
    queue = RerankQueue(reranker, RerankingSettings(pass_tokens=1))
    reranker.gate.clear()
    long = asyncio.create_task(rerank(queue, "a", ["a"] * 5))
    await held(reranker)
    short = asyncio.create_task(rerank(queue, "a", ["x"]))
    await tokenized(queue)
    reranker.gate.set()
    await short
    await long
    assert reranker.passes == [[1.0], [0.0], [1.0], [1.0], [1.0], [1.0]]


async def test_more_than_may_wait_is_refused_and_room_comes_back() -> None:
    reranker = FakeReranker()
    queue = RerankQueue(reranker, RerankingSettings(max_waiting_characters=20))
    with pytest.raises(InvalidInput, match="10 are reranked"):
        await rerank(queue, "a", ["12345", "12345"])
    reranker.gate.clear()
    first = asyncio.create_task(rerank(queue, "a", ["a a a a"]))
    await held(reranker)
    with pytest.raises(Overloaded) as caught:
        await rerank(queue, "a", ["a a"])
    assert caught.value.retry_after_seconds > 0
    reranker.gate.set()
    await first
    assert (await rerank(queue, "a", ["a a"])).documents[0].score == 1.0


async def test_a_failed_pass_fails_its_documents_and_no_others() -> None:
    reranker = FakeReranker()
    queue = RerankQueue(reranker, RerankingSettings(pass_tokens=1))
    reranker.failure = RuntimeError("device lost")
    answer = await rerank(queue, "a", ["a"])
    assert isinstance(answer.documents[0].error, ModelUnavailable)
    reranker.failure = ModelUnavailable("no memory")
    answer = await rerank(queue, "a", ["a"])
    assert answer.documents[0].error is reranker.failure
    reranker.failure = None
    assert (await rerank(queue, "a", ["a"])).documents[0].score == 1.0


async def test_a_request_past_its_deadline_or_cancelled_never_reaches_the_device() -> None:
    reranker = FakeReranker()
    queue = RerankQueue(reranker, clock=lambda: 100.0)
    with pytest.raises(DeadlineExceeded):
        await rerank(queue, "a", ["a"], deadline=99.0)
    reranker.gate.clear()
    first = asyncio.create_task(rerank(queue, "a", ["a"]))
    await held(reranker)
    second = asyncio.create_task(rerank(queue, "a", ["x"]))
    await tokenized(queue)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    reranker.gate.set()
    await first
    await rerank(queue, "a", ["a b"])
    assert [0.0] not in reranker.passes
    assert queue.waiting_characters == 0


async def test_a_query_beyond_all_measure_is_refused_as_a_whole() -> None:
    queue = RerankQueue(FakeReranker(), RerankingSettings(max_text_characters=5))
    with pytest.raises(TextTooLong, match="query"):
        await rerank(queue, "123", ["a"], instruction="456")


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="pass_tokens"):
        RerankingSettings(pass_tokens=0)


@pytest.mark.parametrize(
    ("fields", "error", "advice"),
    [
        ({"instruction": " \t"}, InvalidInput, "blank"),
        ({"instruction": "x" * 2_001}, TextTooLong, "shorten"),
        ({"deadline": float("nan")}, InvalidInput, "not a number"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_as_a_whole(fields, error, advice: str) -> None:
    queue = RerankQueue(FakeReranker())
    with pytest.raises(error, match=advice):
        await rerank(queue, "a", ["a"], **fields)
    assert queue.waiting_characters == 0


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("-inf")])
async def test_a_deadline_of_long_ago_never_reaches_the_device(deadline: float) -> None:
    reranker = FakeReranker()
    with pytest.raises(DeadlineExceeded):
        await rerank(RerankQueue(reranker), "a", ["a"], deadline=deadline)
    assert reranker.passes == []


async def test_nobody_reads_on_for_a_caller_who_has_gone() -> None:
    class HeldReader(FakeReranker):
        """Holds the document that it has in hand until ``go`` is set."""

        def __init__(self) -> None:
            super().__init__()
            self.go, self.reading = threading.Event(), threading.Event()
            self.read: list[str] = []

        def tokenize(self, query: str, document: str, **options: object) -> TokenizedText:
            self.read.append(document)
            self.reading.set()
            assert self.go.wait(10)
            return super().tokenize(query, document, truncate=False)

    reranker = HeldReader()
    queue = RerankQueue(reranker)
    task = asyncio.create_task(rerank(queue, "a", ["first", "second"]))
    assert await asyncio.to_thread(reranker.reading.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    reranker.go.set()
    await rerank(queue, "a", ["after"])
    assert reranker.read == ["first", "after"] and queue.waiting_characters == 0
