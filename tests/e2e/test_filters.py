"""What narrows an answer: the real server, its cache and the fake client must narrow alike."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from precall.client import (
    AsyncClientInterface,
    FakeAsyncClient,
    LocalEncoding,
    MemoryDraft,
    MemoryFilter,
    MemorySource,
)
from tests.e2e.conftest import Served, scope

CALL, OTHER_CALL = "5f0c1d52-6f0f-4f7e-9d5e-000000000001", "5f0c1d52-6f0f-4f7e-9d5e-000000000002"
MARCH, APRIL, MAY = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 4, 5))
DRAFTS = (
    MemoryDraft(text="Dana flies to Pune", kind="event", event_time=MARCH, metadata={"by": "plane"}),
    MemoryDraft(text="Dana likes the window seat", kind="preference", event_time=APRIL, key="seat"),
    MemoryDraft(
        text="Dana drives home",
        kind="event",
        event_time=MAY,
        metadata={"by": "car", "far": "no"},
        pinned=True,
    ),
    MemoryDraft(
        text="Dana called", kind="episode", event_time=APRIL, source=MemorySource(conversation_id=CALL)
    ),
)
FILTERS = {
    "nothing": ({}, (0, 1, 2, 3)),
    "kind": ({"kinds": ["event"]}, (0, 2)),
    "kinds": ({"kinds": {"preference", "episode"}}, (1, 3)),
    "metadata": ({"metadata": {"by": "car"}}, (2,)),
    "all metadata": ({"metadata": {"by": "car", "far": "yes"}}, ()),
    "from, inclusive": ({"event_from": APRIL}, (1, 2, 3)),
    "until, exclusive": ({"event_until": MAY}, (0, 1, 3)),
    "between": ({"event_from": APRIL, "event_until": MAY}, (1, 3)),
    "conversation": ({"conversation_ids": [CALL, OTHER_CALL]}, (3,)),
    "keys": ({"keys": ["seat", "hat"]}, (1,)),
    "pinned": ({"pinned_only": True}, (2,)),
    "joined by AND": ({"kinds": ["event"], "event_until": APRIL}, (0,)),
}
QUESTION = "where does Dana go"


async def narrowed(client: AsyncClientInterface, asked: dict[str, Any], wanted: tuple[int, ...]) -> None:
    texts = {DRAFTS[place].text for place in wanted}
    filter = MemoryFilter(**asked)
    async with client.session(scope()) as session:
        found = await session.search(QUESTION, filter=filter)
        assert {item.memory.text for item in found.items} == texts
        assert found.visible == len(texts)
    listed = await client.memories.list(scope(), filter=filter)
    assert {memory.text for memory in listed.memories} == texts


async def test_search_and_list_take_filters(server: Served) -> None:
    async with server.client() as client:
        await client.memories.write(scope(), DRAFTS)
        for asked, wanted in FILTERS.values():
            await narrowed(client, asked, wanted)


@pytest.mark.parametrize("name", FILTERS)
async def test_the_fake_filters_as_the_server_does(name: str) -> None:
    async with FakeAsyncClient() as client:
        await client.memories.write(scope(), DRAFTS)
        await narrowed(client, *FILTERS[name])


async def test_cache_and_server_cut_at_the_same_relevance(server: Served) -> None:
    async with server.client() as client, server.client(local_encoding=LocalEncoding.OFF) as asking:
        await client.memories.write(scope(), DRAFTS)
        async with client.session(scope()) as session, asking.session(scope()) as unencoded:
            assert await session.ready(60)
            whole = await session.read(QUESTION)
            assert (whole.source, len(whole.items)) == ("cache", len(DRAFTS))
            relevances = sorted(item.score.relevance for item in whole.items)
            assert relevances[0] < relevances[-1]
            for below, above in pairwise(relevances):
                line = (below + above) / 2
                wanted = [item.memory.id for item in whole.items if item.score.relevance >= line]
                read = await session.read(QUESTION, min_relevance=line)
                found = await session.search(QUESTION, min_relevance=line)
                asked = await unencoded.read(QUESTION, min_relevance=line, deadline_ms=60_000)
                assert (read.source, asked.source) == ("cache", "server")
                for answer in (read, found, asked):
                    assert [item.memory.id for item in answer.items] == wanted
            nothing = await session.read(QUESTION, min_relevance=1.0)
            assert (nothing.status, nothing.items, nothing.text, nothing.included) == ("empty", (), "", 0)
