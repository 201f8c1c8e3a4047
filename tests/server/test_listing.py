"""Lists under a filter, with history, and as of a moment, over real gRPC."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from failures import failure_of
from google.protobuf.timestamp_pb2 import Timestamp
from harness import DANA, Caller, Stage, remember, scope

from precall.proto import common_pb2

CALL = common_pb2.Source(conversation_id="call-7")
FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"pune", "tea", "rent"}),
    ({"kinds": [common_pb2.MEMORY_KIND_EVENT]}, {"rent"}),
    ({"kinds": [common_pb2.MEMORY_KIND_EVENT, common_pb2.MEMORY_KIND_FACT]}, {"pune", "rent"}),
    ({"metadata": {"lang": "en"}}, {"pune", "rent"}),
    ({"metadata": {"lang": "en", "from": "crm"}}, {"rent"}),
    ({"event_from": Timestamp(seconds=2_000)}, {"tea", "rent"}),
    ({"event_until": Timestamp(seconds=2_000)}, {"pune"}),
    ({"event_from": Timestamp(seconds=2_000), "event_until": Timestamp(seconds=2_001)}, {"tea"}),
    ({"conversation_ids": ["call-7", "call-8"]}, {"tea"}),
    ({"keys": ["home"]}, {"pune"}),
    ({"pinned_only": True}, {"tea"}),
    ({"pinned_only": True, "keys": ["home"]}, set()),
]


async def fill(caller: Caller) -> None:
    english, crm = {"lang": "en"}, {"lang": "en", "from": "crm"}
    await remember(caller, DANA, "pune", key="home", metadata=english, event_time=Timestamp(seconds=1_000))
    await remember(
        caller,
        DANA,
        "tea",
        pinned=True,
        source=CALL,
        kind=common_pb2.MEMORY_KIND_PREFERENCE,
        event_time=Timestamp(seconds=2_000),
    )
    await remember(
        caller,
        DANA,
        "rent",
        kind=common_pb2.MEMORY_KIND_EVENT,
        metadata=crm,
        event_time=Timestamp(seconds=3_000),
    )


async def listed(caller: Caller, **fields: Any) -> list[str]:
    """Texts of all pages, each of which is full but the last."""
    texts: list[str] = []
    token = ""
    while True:
        page = await caller(
            "MemoryService/ListMemories", scope=scope(DANA), page_size=1, page_token=token, **fields
        )
        texts += [memory.text for memory in page.memories]
        token = page.next_page_token
        if not token:
            return texts
        assert len(page.memories) == 1


async def test_a_list_shows_what_passes_and_its_pages_are_exact(stage: Stage):
    caller = await stage.tenant("acme")
    await fill(caller)
    for fields, expected in FILTERS:
        texts = await listed(caller, filter=common_pb2.Filter(**fields))
        assert (len(texts), set(texts)) == (len(expected), expected), fields


@pytest.mark.parametrize(
    "fields",
    [
        {"kinds": [common_pb2.MEMORY_KIND_UNSPECIFIED]},
        {"kinds": [99]},
        {"event_from": Timestamp(seconds=2), "event_until": Timestamp(seconds=2)},
        {"event_from": Timestamp(seconds=-(10**15))},
    ],
)
async def test_a_filter_that_means_nothing_is_refused(stage: Stage, fields):
    caller = await stage.tenant("acme")
    request = caller("MemoryService/ListMemories", scope=scope(DANA), filter=common_pb2.Filter(**fields))
    assert (await failure_of(request)).reason == "INVALID_INPUT"


async def test_a_rung_is_listed_as_it_stood(stage: Stage):
    caller = await stage.tenant("acme")
    await fill(caller)
    [home] = [m.id for m in (await whole(caller)).memories if m.key == "home"]
    between = datetime.now(UTC)
    await remember(caller, DANA, "goa", key="home", event_time=Timestamp(seconds=1_001))
    moment = Timestamp()
    moment.FromDatetime(between)
    assert await listed(caller) == ["tea", "rent", "goa"]
    assert await listed(caller, as_of=moment) == ["pune", "tea", "rent"]
    keyed = common_pb2.Filter(keys=["home"])
    assert await listed(caller, filter=keyed, as_of=moment) == ["pune"]
    assert await listed(caller, filter=keyed, include_history=True) == ["pune", "goa"]
    assert await listed(caller, filter=keyed, include_history=True, as_of=moment) == ["pune"]
    [then] = (await whole(caller, as_of=moment, filter=keyed)).memories
    assert (then.id, then.state, then.superseded_version) == (home, common_pb2.MEMORY_STATE_CURRENT, 0)
    moment.FromDatetime(between - timedelta(days=1))
    assert await listed(caller, as_of=moment, include_history=True) == []


async def test_what_has_expired_is_not_there(stage: Stage):
    caller = await stage.tenant("acme")
    end = Timestamp()
    end.FromDatetime(datetime.now(UTC) - timedelta(seconds=1))
    gone, there = str(uuid.uuid4()), str(uuid.uuid4())
    await remember(caller, DANA, "gone", id=gone, key="k", expires_at=end)
    await remember(caller, DANA, "there", id=there)
    assert await listed(caller, include_history=True) == ["there"]
    found = await caller("MemoryService/GetMemories", scope=scope(DANA), ids=[gone, there])
    assert ([memory.id for memory in found.memories], list(found.missing_ids)) == ([there], [gone])
    assert not (await caller("MemoryService/GetHistory", scope=scope(DANA), key="k")).memories


async def whole(caller: Caller, **fields: Any) -> Any:
    return await caller("MemoryService/ListMemories", scope=scope(DANA), **fields)
