"""ACCURATE search and search as_of over real gRPC, with a reranker of the test's."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from failures import failure_of
from fakes.reranker import WordReranker
from harness import ACME, DANA, ELI, Caller, Stage, remember, running_stage, scope, search
from wire_vectors import vector_of, vectors

from precall.engine.errors import ModelUnavailable
from precall.proto import common_pb2, retrieval_pb2

ACCURATE = retrieval_pb2.SEARCH_MODE_ACCURATE
SEARCH = "RetrievalService/Search"
TWO_QUESTIONS = "What boats did Dana buy? Which trains did Eli miss?"
PARTS = ["What boats did Dana buy?", "Which trains did Eli miss?"]


class GatedReranker(WordReranker):
    """Notes what it reads; a pass that reads ``held`` waits at the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.holds = False
        self.queries: list[str] = []

    def tokenize(self, query: str, document: str, **options: object):  # type: ignore[no-untyped-def]
        self.queries.append(query)
        return super().tokenize(query, document, **options)  # type: ignore[arg-type]

    def score(self, pairs):  # type: ignore[no-untyped-def]
        if self.holds:
            self.entered.set()
            assert self.gate.wait(10)
        return super().score(pairs)


@pytest.fixture
def reranker() -> GatedReranker:
    return GatedReranker()


@pytest.fixture
async def judged(tmp_path: Path, reranker: GatedReranker) -> AsyncIterator[Stage]:
    """A server that has a reranker."""
    try:
        async with running_stage(
            tmp_path / "data", reranker=reranker, probe_seconds=300.0, rerank_candidates=20
        ) as running:
            yield running
    finally:
        reranker.gate.set()


@pytest.fixture
async def caller(judged: Stage) -> Caller:
    return await judged.tenant("acme")


async def test_the_reply_says_what_the_reranker_made_of_each_memory(caller: Caller):
    await remember(caller, DANA, "boats", "boats and other things that float")
    await remember(caller, ACME, "tea")
    await remember(caller, ELI, "boats")
    reply = await caller(SEARCH, scope=scope(DANA), query="boats", mode=ACCURATE)
    assert [r.memory.text for r in reply.results] == ["boats", "boats and other things that float", "tea"]
    assert [r.score.rerank for r in reply.results] == pytest.approx([1.0, 1 / 6, 0.0])
    for result in reply.results:
        parts = result.score
        expected = 0.7 * parts.relevance + 0.2 * parts.importance + 0.1 * parts.recency
        assert parts.HasField("rerank") and parts.total == pytest.approx(expected, abs=1e-5)
    assert {t.stage for t in reply.timings} == {
        "queue", "tokenize", "device", "search", "rerank_tokenize", "rerank_queue", "rerank_device", "total",
    }  # fmt: skip
    assert (reply.version, reply.visible, list(reply.parts)) == (3, 3, [])
    fast = await caller(SEARCH, scope=scope(DANA), query="boats")
    assert not any(result.score.HasField("rerank") for result in fast.results)


async def test_a_compound_query_is_searched_for_in_its_parts(
    judged: Stage, caller: Caller, reranker: GatedReranker
):
    await remember(caller, DANA, "Dana bought two boats", "the train that Eli missed", "tea")
    reranker.queries.clear()
    reply = await caller(SEARCH, scope=scope(DANA), query=TWO_QUESTIONS, mode=ACCURATE)
    assert list(reply.parts) == PARTS
    assert list(dict.fromkeys(reranker.queries)) == [TWO_QUESTIONS, *PARTS]
    assert len({r.memory.id for r in reply.results}) == len(reply.results) == 3
    fast = await caller(SEARCH, scope=scope(DANA), query=TWO_QUESTIONS)
    assert not fast.parts

    by_vector = await caller(
        SEARCH,
        scope=scope(DANA),
        query=TWO_QUESTIONS,
        mode=ACCURATE,
        query_vector=vectors(vector_of(TWO_QUESTIONS)),
    )
    assert list(by_vector.parts) == PARTS and by_vector.usage == common_pb2.TokenUsage()
    assert [r.memory.id for r in by_vector.results] == [r.memory.id for r in reply.results]


async def test_a_filter_and_a_limit_hold(caller: Caller):
    await remember(caller, DANA, *(f"boats {n}" for n in range(8)), metadata={"colour": "red"})
    await remember(caller, DANA, "boats", metadata={"colour": "blue"})
    red = common_pb2.Filter(metadata={"colour": "red"})
    reply = await caller(SEARCH, scope=scope(DANA), query="boats", mode=ACCURATE, filter=red, limit=3)
    assert len(reply.results) == 3 and reply.visible == 8
    assert all(r.memory.metadata["colour"] == "red" for r in reply.results)


async def test_so_many_are_read_as_the_setting_says(caller: Caller, reranker: GatedReranker):
    await remember(caller, DANA, *(f"boats {n}" for n in range(30)))
    reranker.queries.clear()
    await search(caller, DANA, "boats", mode=ACCURATE)
    assert len(reranker.queries) == 20


async def test_without_a_reranker_it_is_refused_and_says_which_setting_it_takes(stage: Stage):
    plain = await stage.tenant("acme")
    failure = await failure_of(search(plain, DANA, "boats", mode=ACCURATE))
    assert failure.reason == "NOT_SUPPORTED" and "setting reranker" in failure.message
    failure = await failure_of(search(plain, DANA, "boats", mode=99))
    assert failure.reason == "INVALID_INPUT"


async def test_a_broken_reranker_fails_the_search(caller: Caller, reranker: GatedReranker):
    await remember(caller, DANA, "boats")
    reranker.fault = ModelUnavailable("device lost")
    failure = await failure_of(search(caller, DANA, "boats", mode=ACCURATE))
    assert failure.reason == "MODEL_UNAVAILABLE"
    assert await search(caller, DANA, "boats") == ["boats"]


async def test_the_callers_deadline_ends_the_wait(judged: Stage, caller: Caller, reranker: GatedReranker):
    await remember(caller, DANA, "boats")
    reranker.holds = True
    call = judged.channel.unary_unary(
        f"/precall.v1.{SEARCH}",
        retrieval_pb2.SearchRequest.SerializeToString,
        retrieval_pb2.SearchResponse.FromString,
    )
    request = retrieval_pb2.SearchRequest(scope=scope(DANA), query="boats", mode=ACCURATE)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(request, metadata=(("authorization", f"Bearer {caller.token}"),), timeout=0.5)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_what_is_deleted_while_the_reranker_reads_is_not_answered(
    caller: Caller, reranker: GatedReranker
):
    boats, _ = await remember(caller, DANA, "boats", "more boats")
    reranker.holds = True
    searching = asyncio.create_task(search(caller, DANA, "boats", mode=ACCURATE))
    assert await asyncio.to_thread(reranker.entered.wait, 10)
    await caller("MemoryService/DeleteMemories", scope=scope(DANA), ids=[boats])
    reranker.gate.set()
    assert await searching == ["more boats"]


async def moment_of(caller: Caller, memory_id: str) -> object:
    """When the server stored it."""
    reply = await caller("MemoryService/GetMemories", scope=scope(DANA), ids=[memory_id])
    return reply.memories[0].created_at


@pytest.mark.parametrize("mode", [retrieval_pb2.SEARCH_MODE_FAST, ACCURATE])
async def test_a_search_as_of_answers_as_the_ladder_stood(caller: Caller, mode: int):
    (pune,) = await remember(caller, DANA, "lives in pune", key="home", event_time={"seconds": 1_000})
    then = await moment_of(caller, pune)
    (boats,) = await remember(caller, DANA, "buys boats")
    (goa,) = await remember(caller, DANA, "lives in goa", key="home", event_time={"seconds": 2_000})
    later = await moment_of(caller, goa)
    assert await search(caller, DANA, "lives", mode=mode) == ["lives in goa", "buys boats"]
    reply = await caller(SEARCH, scope=scope(DANA), query="lives", mode=mode, as_of=then)
    (result,) = reply.results
    assert (result.memory.id, result.memory.state) == (pune, common_pb2.MEMORY_STATE_CURRENT)
    assert (reply.version, reply.visible) == (3, 1)
    assert result.score.HasField("rerank") is (mode == ACCURATE)
    assert await search(caller, DANA, "lives", mode=mode, as_of=later) == ["lives in goa", "buys boats"]
    await caller("MemoryService/DeleteMemories", scope=scope(DANA), ids=[boats])
    assert await search(caller, DANA, "lives", mode=mode, as_of=later) == ["lives in goa"]
    assert await search(caller, ELI, "lives", mode=mode, as_of=later) == []


async def test_recency_is_counted_from_the_moment_asked_about(caller: Caller):
    moment = {"seconds": 4_000_000_000}  # far ahead: today the event counts as just happened
    await remember(caller, DANA, "then", event_time={"seconds": 4_000_000_000 - 86_400})
    recent = common_pb2.RankingWeights(recency=1.0, half_life={"seconds": 86_400})
    reply = await caller(SEARCH, scope=scope(DANA), query="then", as_of=moment, weights=recent)
    assert reply.results[0].score.recency == pytest.approx(0.5)
    failure = await failure_of(search(caller, DANA, "then", as_of=moment, ranked_at=moment))
    assert failure.reason == "INVALID_INPUT" and "ranked_at" in failure.message
