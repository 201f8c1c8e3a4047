"""0 is a value: a weight, an importance, a confidence, and the first moment of 1970 is a moment."""

from typing import Any, Final

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from harness import DANA, Caller, Stage, remember, scope, search

from precall.proto import common_pb2

EPOCH: Final = Timestamp(seconds=0)
DAY: Final = Timestamp(seconds=86_400)


@pytest.fixture
async def caller(stage: Stage) -> Caller:
    return await stage.tenant("acme")


async def result_of(caller: Caller, **fields: Any) -> Any:
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query="peanuts", **fields)
    (result,) = reply.results
    return result


async def listed(caller: Caller, **fields: Any) -> list[Any]:
    reply = await caller("MemoryService/ListMemories", scope=scope(DANA), **fields)
    return list(reply.memories)


@pytest.mark.parametrize("part", ["relevance", "importance", "recency"])
async def test_a_part_whose_weight_is_zero_adds_nothing(caller: Caller, part: str) -> None:
    await remember(caller, DANA, "peanuts are bad for Dana", importance=0.75, event_time=DAY)
    weights = {"relevance": 0.5, "importance": 0.3, "recency": 0.2} | {part: 0.0}
    result = await result_of(caller, weights=common_pb2.RankingWeights(**weights), ranked_at=DAY)
    expected = sum(weight * getattr(result.score, name) for name, weight in weights.items())
    assert getattr(result.score, part) > 0.1
    assert result.score.total == pytest.approx(expected, abs=1e-6)


async def test_all_weights_of_zero_leave_nothing(caller: Caller) -> None:
    await remember(caller, DANA, "peanuts")
    assert (await result_of(caller, weights=common_pb2.RankingWeights())).score.total == 0


async def test_a_memory_of_no_importance_and_no_confidence_stays_one(caller: Caller) -> None:
    await remember(caller, DANA, "peanuts", importance=0.0, confidence=0.0)
    (memory,) = await listed(caller)
    assert (memory.importance, memory.confidence) == (0.0, 0.0)
    assert (await result_of(caller)).score.importance == 0.0


async def test_what_was_said_in_the_first_moment_of_1970_was_said_then(caller: Caller) -> None:
    await remember(caller, DANA, "peanuts", said_time=EPOCH, event_time=EPOCH, valid_from=EPOCH)
    (memory,) = await listed(caller)
    assert memory.event_time == memory.said_time == memory.valid_from == EPOCH
    assert memory.HasField("valid_from")


async def test_what_expired_or_ended_then_is_over(caller: Caller) -> None:
    await remember(caller, DANA, "peanuts", expires_at=EPOCH)
    await remember(caller, DANA, "peanuts", valid_until=EPOCH)
    assert await search(caller, DANA, "peanuts") == []
    (memory,) = await listed(caller)
    assert memory.valid_until == EPOCH


async def test_a_filter_from_then_or_until_then_is_one(caller: Caller) -> None:
    await remember(caller, DANA, "peanuts before", event_time=Timestamp(seconds=-1))
    await remember(caller, DANA, "peanuts after", event_time=EPOCH)
    for filters, expected in (({"event_from": EPOCH}, "after"), ({"event_until": EPOCH}, "before")):
        asked = common_pb2.Filter(**filters)
        assert (await result_of(caller, filter=asked)).memory.text == f"peanuts {expected}"
        assert [memory.text for memory in await listed(caller, filter=asked)] == [f"peanuts {expected}"]


async def test_recency_may_be_counted_from_then(caller: Caller) -> None:
    day_before = Timestamp(seconds=-86_400)
    await remember(caller, DANA, "peanuts", event_time=day_before)
    weights = common_pb2.RankingWeights(recency=1.0, half_life={"seconds": 86_400})
    result = await result_of(caller, ranked_at=EPOCH, weights=weights)
    assert result.score.recency == pytest.approx(0.5)


async def test_as_of_then_nothing_stood(caller: Caller) -> None:
    await remember(caller, DANA, "peanuts", event_time=EPOCH)
    assert await search(caller, DANA, "peanuts", as_of=EPOCH) == []
    assert await listed(caller, as_of=EPOCH) == []
