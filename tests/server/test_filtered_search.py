"""Searches under a filter, over real gRPC."""

import pytest
from failures import failure_of
from google.protobuf.timestamp_pb2 import Timestamp
from harness import ACME, DANA, Stage, remember, scope

from precall.proto import common_pb2

FACT, EVENT = common_pb2.MEMORY_KIND_FACT, common_pb2.MEMORY_KIND_EVENT


async def fill(caller) -> None:
    await remember(caller, DANA, "tea one", kind=FACT, metadata={"team": "red"}, key="drink")
    await remember(caller, DANA, "tea two", kind=EVENT, event_time=Timestamp(seconds=1_000), pinned=True)
    await remember(caller, ACME, "tea three", kind=EVENT, source=common_pb2.Source(conversation_id="c1"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"tea one", "tea two", "tea three"}),
        ({"kinds": [EVENT]}, {"tea two", "tea three"}),
        ({"kinds": [EVENT, FACT], "pinned_only": True}, {"tea two"}),
        ({"metadata": {"team": "red"}}, {"tea one"}),
        ({"metadata": {"team": "red", "room": "4"}}, set()),
        ({"event_from": Timestamp(seconds=1_000), "event_until": Timestamp(seconds=1_001)}, {"tea two"}),
        ({"event_until": Timestamp(seconds=1_000)}, set()),
        ({"conversation_ids": ["c1", "c2"]}, {"tea three"}),
        ({"keys": ["drink"]}, {"tea one"}),
    ],
)
async def test_a_search_returns_what_passes_and_counts_it(stage: Stage, fields, expected):
    caller = await stage.tenant("acme")
    await fill(caller)
    reply = await caller(
        "RetrievalService/Search", scope=scope(DANA), query="tea", filter=common_pb2.Filter(**fields)
    )
    assert {result.memory.text for result in reply.results} == expected
    assert reply.visible == len(expected)


async def test_a_filter_that_means_nothing_is_refused(stage: Stage):
    caller = await stage.tenant("acme")
    request = caller(
        "RetrievalService/Search", scope=scope(DANA), query="tea", filter=common_pb2.Filter(kinds=[99])
    )
    assert (await failure_of(request)).reason == "INVALID_INPUT"
