"""Searching over real gRPC: what is found, and what is told of it."""

import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD
from harness import ACME, DANA, ELI, Stage, remember, scope, search
from wire_vectors import vector_of, vectors

from precall.proto import common_pb2, retrieval_pb2


async def test_search_tells_scores_rungs_legs_and_times(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts", "The kettle is broken")
    await remember(caller, ACME, "Acme serves peanuts on flights")
    await remember(caller, ELI, "Eli is allergic to peanuts")
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query="allergic to peanuts", limit=2)
    assert [r.memory.text for r in reply.results] == [
        "Dana is allergic to peanuts",
        "Acme serves peanuts on flights",
    ]
    assert [r.rung for r in reply.results] == ["user", "customer"]
    first = reply.results[0]
    assert set(first.legs) == {"dense", "keyword"}
    parts = first.score
    expected = 0.7 * parts.relevance + 0.2 * parts.importance + 0.1 * parts.recency
    assert parts.total == pytest.approx(expected, abs=1e-5)
    assert (reply.version, reply.visible) == (3, 3)
    assert reply.model_fingerprint == FAKE_CARD.fingerprint
    assert reply.usage.given == 3
    assert {t.stage for t in reply.timings} == {"queue", "tokenize", "device", "search", "total"}


async def test_search_by_vector_embeds_nothing_and_ranks_alike(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts", "The kettle is broken", "Dana likes boats")
    query = "allergic peanuts"
    at = {"seconds": 2_000_000_000}
    by_text = await caller("RetrievalService/Search", scope=scope(DANA), query=query, ranked_at=at)
    passes = stage.encoder.forward_passes
    by_vector = await caller(
        "RetrievalService/Search",
        scope=scope(DANA),
        query=query,
        ranked_at=at,
        query_vector=vectors(vector_of(query)),
    )
    assert stage.encoder.forward_passes - passes <= 1  # a readiness probe may have come between
    assert [r.memory.id for r in by_text.results] == [r.memory.id for r in by_vector.results]
    assert [r.score.total for r in by_text.results] == pytest.approx(
        [r.score.total for r in by_vector.results], abs=1e-6
    )
    assert by_vector.usage == common_pb2.TokenUsage()


async def test_a_weight_of_zero_is_a_value(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "peanuts", importance=0.0)
    await remember(caller, DANA, "unrelated", importance=1.0)
    weights = common_pb2.RankingWeights(importance=1.0)
    assert await search(caller, DANA, "peanuts", weights=weights) == ["unrelated", "peanuts"]
    weights = common_pb2.RankingWeights(relevance=1.0)
    assert await search(caller, DANA, "peanuts", weights=weights) == ["peanuts", "unrelated"]


async def test_recency_is_counted_from_the_moment_asked(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "then", event_time={"seconds": 1_000_000})
    reply = await caller(
        "RetrievalService/Search",
        retrieval_pb2.SearchRequest(
            scope=scope(DANA),
            query="then",
            ranked_at={"seconds": 1_000_000 + 86_400},
            weights=common_pb2.RankingWeights(recency=1.0, half_life={"seconds": 86_400}),
        ),
    )
    assert reply.results[0].score.recency == pytest.approx(0.5)


async def test_a_long_query_is_refused_or_cut_as_asked(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "word")
    assert (await failure_of(search(caller, DANA, "word " * 65))).reason == "TEXT_TOO_LONG"
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query="word " * 65, truncate=True)
    assert reply.usage.truncated
