"""Many tenants before one reranker: turns, shares, the hint when to come again, and the end."""

import asyncio
import threading
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.instruction import require_no_instruction
from precall.engine.encoding.reranker import RerankedBatch
from precall.engine.errors import (
    ConfigurationError,
    Draining,
    InvalidInput,
    NotSupported,
    Overloaded,
)
from precall.engine.retrieval.pair_reading import SLICE_CHARACTERS
from precall.engine.retrieval.reranking import RerankingSettings, RerankQueue
from tests.fakes.reranker import WordReranker
from tests.retrieval.asking import rerank

SEARCH = WorkClass.CONVERSATION


class NotingReranker(WordReranker):
    """Notes the documents as they are read and scored; ``gate`` closed holds either, in ``entered``."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.entered = threading.Event(), threading.Event()
        self.reading_gate, self.reading = threading.Event(), threading.Event()
        self.gate.set()
        self.reading_gate.set()
        self.read: list[str] = []
        self.scored: list[str] = []
        self.seconds = 0.0
        self.now = 0.0

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        require_no_instruction(instruction, "this model")
        self.reading.set()
        assert self.reading_gate.wait(10)
        self.read.append(document)
        return TokenizedText(np.array([len(self.read) - 1], np.int64), TokenUsage(1, 1))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.entered.set()
        assert self.gate.wait(10)
        self.now += self.seconds
        self.scored += [self.read[int(pair.token_ids[0])] for pair in pairs]
        return RerankedBatch(np.full(len(pairs), 0.5, np.float32))

    def clock(self) -> float:
        return self.now


async def held(event: threading.Event) -> None:
    """Until a pass, or a document, is on a thread, which it cannot leave."""
    assert await asyncio.to_thread(event.wait, 10)


@pytest.fixture
def reranker() -> NotingReranker:
    return NotingReranker()


async def flood_and(
    queue: RerankQueue, reranker: NotingReranker, *, tenant: str, work_class: WorkClass = WorkClass.INGEST
) -> None:
    """``acme`` has twenty requests of five passes before the device when another comes."""
    reranker.gate.clear()
    flood = [asyncio.create_task(rerank(queue, "tea", ["flood"] * 5)) for _ in range(20)]
    await held(reranker.entered)
    other = asyncio.create_task(rerank(queue, "tea", ["one", "two"], tenant=tenant, work_class=work_class))
    while "two" not in reranker.read:  # noqa: ASYNC110 - nobody is told that something was read
        await asyncio.sleep(0)
    reranker.gate.set()
    await asyncio.gather(*flood, other)


async def test_one_tenants_flood_keeps_no_other_waiting(reranker: NotingReranker) -> None:
    queue = RerankQueue(reranker, RerankingSettings(pass_tokens=1))
    await flood_and(queue, reranker, tenant="other")
    assert reranker.scored.index("two") <= 10 and len(reranker.scored) == 102


async def test_a_search_does_not_wait_for_a_flood_of_plain_reranking(reranker: NotingReranker) -> None:
    queue = RerankQueue(reranker, RerankingSettings(pass_tokens=1))
    await flood_and(queue, reranker, tenant="acme", work_class=SEARCH)
    assert reranker.scored.index("two") <= 10


async def test_a_long_request_gives_the_tokenizer_to_others_between_its_slices(
    reranker: NotingReranker,
) -> None:
    queue = RerankQueue(reranker)
    reranker.reading_gate.clear()
    long = asyncio.create_task(rerank(queue, "tea", ["x" * SLICE_CHARACTERS] * 5))
    await held(reranker.reading)
    short = asyncio.create_task(rerank(queue, "tea", ["short"], tenant="other"))
    await asyncio.sleep(0)
    reranker.reading_gate.set()
    await asyncio.gather(long, short)
    assert reranker.read[1] == "short"


async def test_a_tenant_has_half_of_the_room_and_a_class_its_own(reranker: NotingReranker) -> None:
    queue = RerankQueue(reranker, RerankingSettings(max_waiting_characters=20))
    with pytest.raises(InvalidInput, match="10 are reranked"):
        await rerank(queue, "", ["x" * 11])
    reranker.gate.clear()
    waiting = [asyncio.create_task(rerank(queue, "", ["x" * 8]))]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="of yours"):
        await rerank(queue, "", ["x" * 3])
    waiting += [asyncio.create_task(rerank(queue, "", ["x" * 8], tenant="b"))]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="16 characters wait"):
        await rerank(queue, "", ["x" * 8], tenant="c")
    waiting += [asyncio.create_task(rerank(queue, "", ["x" * 8], work_class=SEARCH))]
    await asyncio.sleep(0)
    assert queue.waiting_characters == 24
    reranker.gate.set()
    await asyncio.gather(*waiting)
    assert queue.waiting_characters == 0


async def test_the_hint_counts_passes_and_not_the_time_in_line(reranker: NotingReranker) -> None:
    """Ten characters take the device a second, however long somebody waited for it."""
    queue = RerankQueue(reranker, RerankingSettings(max_waiting_characters=200), reranker.clock)
    reranker.seconds = 1.0
    await rerank(queue, "", ["x" * 10])
    reranker.gate.clear()
    first = asyncio.create_task(rerank(queue, "", ["x" * 100]))
    await held(reranker.entered)
    reranker.now += 1_000.0
    with pytest.raises(Overloaded) as caught:
        await rerank(queue, "", ["x" * 20])
    assert caught.value.retry_after_seconds == pytest.approx(2.0)
    reranker.gate.set()
    await first


async def test_an_instruction_that_the_model_does_not_take_is_refused_whether_or_not_there_is_room(
    reranker: NotingReranker,
) -> None:
    queue = RerankQueue(reranker, RerankingSettings(max_waiting_characters=1))
    with pytest.raises(NotSupported):
        await rerank(queue, "tea", ["tea"], instruction="judge")
    assert reranker.read == []


async def test_what_waits_is_refused_when_the_server_goes_and_what_computes_is_answered(
    reranker: NotingReranker,
) -> None:
    queue = RerankQueue(reranker)
    reranker.gate.clear()
    computing = asyncio.create_task(rerank(queue, "tea", ["first"]))
    await held(reranker.entered)
    waiting = asyncio.create_task(rerank(queue, "tea", ["second"]))
    while "second" not in reranker.read:  # noqa: ASYNC110 - nobody is told that something was read
        await asyncio.sleep(0)
    queue.refuse_waiting()
    with pytest.raises(Draining):
        await waiting
    with pytest.raises(Draining):
        await rerank(queue, "tea", ["third"])
    reranker.gate.set()
    assert (await computing).documents[0].score == 0.5
    assert reranker.scored == ["first"] and queue.waiting_characters == 0


async def test_close_waits_for_the_pass_in_hand_and_ends_the_threads(reranker: NotingReranker) -> None:
    before = set(threading.enumerate())
    queue = RerankQueue(reranker)
    own = set(threading.enumerate()) - before
    reranker.gate.clear()
    computing = asyncio.create_task(rerank(queue, "tea", ["first"]))
    await held(reranker.entered)
    closing = asyncio.create_task(queue.close())
    await asyncio.sleep(0)
    assert not closing.done()
    reranker.gate.set()
    await closing
    await queue.close()
    assert (await computing).documents[0].score == 0.5
    assert len(own) == 2 and not any(thread.is_alive() for thread in own)


async def test_close_leaves_a_pass_that_hangs_to_itself(reranker: NotingReranker) -> None:
    queue = RerankQueue(reranker, RerankingSettings(close_seconds=0.01))
    reranker.gate.clear()
    hanging = asyncio.create_task(rerank(queue, "tea", ["first"]))
    await held(reranker.entered)
    await queue.close()
    assert not hanging.done()
    reranker.gate.set()
    await hanging


@pytest.mark.parametrize("fields", [{"close_seconds": 0.0}, {"class_weights": {SEARCH: 0.0}}])
def test_settings_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="above 0"):
        RerankingSettings(**fields)  # type: ignore[arg-type]
