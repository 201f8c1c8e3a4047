"""A conversation's turns through a tenant at work: searches and clients follow the weights in the file."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from precall.engine.anticipation.stream import Stream
from precall.engine.engine import Engine
from precall.engine.memory.memory import Memory, MemoryKind, NewMemory, Source
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Tenant
from precall.scoring.terms import analyze
from tests.engine.conftest import found, new, write
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, WORDS, moment
from tests.fakes.stream_client import StreamClient
from tests.memory.weighing import weights

TALK = Source("talk")


def turn(name: str, text: str, *, at: float, **fields: Any) -> NewMemory:
    """``at``: seconds since the talk began."""
    fields = {"kind": MemoryKind.EPISODE, "source": TALK} | fields
    return new(name, text, at=at, **fields)


class FollowingClient(StreamClient):
    """Confirms whatever it is sent, and tells when it has reached a version."""

    def __init__(self) -> None:
        super().__init__("s")
        self.moved = asyncio.Event()

    async def follow(self, engine: Engine, stream: Stream) -> None:
        while event := await stream.next(lambda: engine.anticipator.heartbeat("t"), 0.01):
            self.apply(event)
            engine.anticipator.renew_lease("t", stream.id, self.applied)
            self.moved.set()

    async def reach(self, version: int) -> None:
        """Return once it was sent everything up to a version."""
        async with asyncio.timeout(10):
            while self.version < version:
                self.moved.clear()
                await self.moved.wait()


@pytest.fixture
async def client(engine: Engine, tenant: Tenant) -> AsyncIterator[FollowingClient]:
    """A session on Dana's rung."""
    stream = engine.anticipator.open_stream("t", "one", tenant.model().card)
    engine.anticipator.open_session(
        tenant_id="t", stream_id="one", session_id="s", conversation_id="", rung=DANA, ladder=tenant.ladder,
        model=tenant.model(), partitions=await tenant.partitions(DANA), version=tenant.version,
    )  # fmt: skip
    made = FollowingClient()
    following = asyncio.create_task(made.follow(engine, stream))
    yield made
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_an_answer_is_found_by_what_it_answers(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, turn("other", "zeppelin", at=-9_000), turn("q", "Were you in Pune?", at=0))
    await write(tenant, turn("a", "Yes, last Friday!", at=1), turn("far", "Tea?", at=9_000))
    query = Query(await tenant.model().embed_turn("pune"), analyze("pune"), engine.clock.wall(), limit=50)
    hits = {hit.memory.id: hit.score.keyword for hit in (await tenant.search(DANA, query)).hits}
    assert hits["q"] > hits["a"] > hits["other"] == hits["far"] == 0


async def test_searches_and_clients_lose_the_words_of_a_deleted_turn(
    engine: Engine, tenant: Tenant, client: FollowingClient
) -> None:
    await write(tenant, turn("q", "zeppelin", at=0), turn("a", "lamp", at=1), turn("b", "tea", at=2))
    await client.reach(1)
    assert "zeppelin" in client.items["a"].indexed.impacts
    outcome = await tenant.delete(["q"], visible_from=None, request_id=None)
    held = {name: item.indexed.impacts for name, item in client.items.items()}
    assert not any("zeppelin" in impacts for impacts in held.values()), "before the ack"
    await client.reach(outcome.version)
    assert {name: set(item.indexed.impacts) for name, item in client.items.items()} == {
        "a": {"lamp"}, "b": {"tea", "lamp"},
    }  # fmt: skip
    statistics = (await tenant.partitions(DANA))[0].statistics(["zeppelin", "lamp"])
    assert statistics.frequencies == {"lamp": 2}
    assert await found(engine, tenant, "lamp") == ["a", "b"]


@pytest.mark.parametrize("seed", range(4))
async def test_file_partitions_and_clients_have_the_same_weights_whatever_happens(
    engine: Engine, tenant: Tenant, client: FollowingClient, clock: FakeClock, seed: int
) -> None:
    draw = random.Random(seed)
    for serial in range(40):
        await act(draw, tenant, clock, serial)
        await client.reach(tenant.version)
        tenant.check_integrity()
        standing: list[Memory] = []
        stored: dict[str, dict[str, float]] = {}
        for rung in (ACME, DANA):
            page = tenant.store.list_rung(rung, limit=999, include_history=True)
            standing += page.memories
            stored |= {each.memory.id: dict(each.impacts) for each in tenant.store.load_rung(rung)}
        expected = weights(standing)
        assert stored == {name: expected[name] for name in stored}
        indexed = [each for partition in await tenant.partitions(DANA) for each in partition.all()]
        assert {each.memory.id: each.impacts for each in indexed} == stored
        assert {name: item.indexed.impacts for name, item in client.items.items()} == stored


async def act(draw: random.Random, tenant: Tenant, clock: FakeClock, serial: int) -> None:
    """One of the things that may happen to a conversation."""
    ids = [each.memory.id for rung in (ACME, DANA) for each in tenant.store.load_rung(rung)]
    match draw.choice(("write", "write", "write", "delete", "forget", "expire")):
        case "delete" if ids:
            await tenant.delete(draw.sample(ids, min(2, len(ids))), visible_from=None, request_id=None)
        case "forget":
            source = Source("talk", f"turn-{draw.randrange(4)}")
            await tenant.forget_source(source, visible_from=DANA, request_id=None)
        case "expire":
            clock.advance(draw.randrange(1, 5))
            await tenant.destroy_expired()
        case _:
            said = [spoken(draw, f"m{serial}-{n}", tenant, clock) for n in range(draw.randrange(1, 5))]
            parts = [said] if draw.random() < 0.5 else [[each] for each in said]
            await asyncio.gather(*(write(tenant, *part) for part in parts))


def spoken(draw: random.Random, name: str, tenant: Tenant, clock: FakeClock) -> NewMemory:
    return turn(
        name,
        " ".join(draw.sample(WORDS, 3)),
        at=draw.randrange(12) * 1_200,
        rung=draw.choice((DANA, DANA, DANA, ACME)),
        key=draw.choice(("", "", "", "k", "l")),
        source=Source(draw.choice(("talk", "talk", "")), f"turn-{draw.randrange(4)}"),
        kind=draw.choice((MemoryKind.EPISODE, MemoryKind.EPISODE, MemoryKind.FACT)),
        expires_at=draw.choice((None, moment(clock.wall() + draw.randrange(1, 9)))),
    )
