"""A search as_of an earlier moment answers as one did at that moment, less what was destroyed since."""

import asyncio
import random
import threading
from collections.abc import Iterator
from datetime import datetime

import pytest

from precall.engine.engine import Engine
from precall.engine.errors import VersionNotReached
from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, MemoryState
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Found, Tenant
from precall.scoring.terms import analyze
from tests.engine.conftest import new, write
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE, WORDS, moment

TEXT = "pune train tea doctor"
READERS = (ACME, DANA, EVE)


async def search(
    engine: Engine,
    tenant: Tenant,
    rung: Rung,
    at: float,
    *,
    as_of: datetime | None = None,
    only: MemoryFilter | None = None,
    min_version: int = 0,
) -> Found:
    vector = await tenant.model().embed_turn(TEXT)
    query = Query(vector, analyze(TEXT), at, limit=100, filter=only)
    return await tenant.search(rung, query, as_of=as_of, min_version=min_version)


def totals(found: Found) -> dict[str, float]:
    return {hit.memory.id: hit.score.total for hit in found.hits}


@pytest.mark.parametrize("seed", range(3))
async def test_each_moment_answers_as_it_did_then(
    engine: Engine, tenant: Tenant, clock: FakeClock, seed: int
) -> None:
    chance = random.Random(seed)
    filters = (None, MemoryFilter(metadata={"colour": "red"}))
    answered: dict[float, dict[tuple[Rung, int], dict[str, float]]] = {}
    alive: set[str] = set()
    destroyed_by: dict[float, set[str]] = {}
    destroyed: set[str] = set()
    for number in range(18):
        if alive and chance.random() < 0.2:
            gone = chance.choice(sorted(alive))
            outcome = await tenant.delete([gone], visible_from=None, request_id=None)
            removed = {deleted.id for deleted in outcome.deleted}
            destroyed |= removed
            alive -= removed
        else:
            batch = [
                new(
                    f"m{number}-{n}",
                    " ".join(chance.sample(WORDS[:8], 3)),
                    chance.choice(READERS),
                    at=chance.uniform(-500, 500),
                    key=chance.choice(("", "home", "job")),
                    metadata={"colour": chance.choice(("red", "blue"))},
                )
                for n in range(chance.randint(1, 3))
            ]
            await write(tenant, *batch)
            alive |= {memory.id for memory in batch}
        clock.advance(1.0)
        now = clock.wall()
        destroyed_by[now] = set(destroyed)
        answered[now] = {
            (rung, which): totals(await search(engine, tenant, rung, now, only=only))
            for rung in READERS
            for which, only in enumerate(filters)
        }
        clock.advance(1.0)
    assert destroyed, "the seed destroys something"
    for now, answers in answered.items():
        since = destroyed - destroyed_by[now]
        for (rung, which), then in answers.items():
            found = await search(engine, tenant, rung, now, as_of=moment(now), only=filters[which])
            assert set(totals(found)) == set(then) - since
            assert found.visible == len(found.hits)
            assert all(hit.memory.state is MemoryState.CURRENT for hit in found.hits)
            if not since:
                assert totals(found) == pytest.approx(then, abs=1e-6)
                assert [hit.memory.id for hit in found.hits] == list(then)


async def test_a_reader_sees_its_own_rungs_of_the_past_only(engine: Engine, tenant: Tenant) -> None:
    await write(tenant, new("a", "pune", ACME), new("d", "pune", DANA), new("e", "pune", EVE))
    then = moment(engine.clock.wall())
    for rung, seen in ((ACME, {"a"}), (DANA, {"a", "d"}), (EVE, {"a", "e"})):
        assert set(totals(await search(engine, tenant, rung, then.timestamp(), as_of=then))) == seen
    nobody = Rung(("globex",))
    assert not (await search(engine, tenant, nobody, then.timestamp(), as_of=then)).hits


async def test_what_was_valid_then_counts_and_what_has_expired_since_does_not(
    engine: Engine, tenant: Tenant, clock: FakeClock
) -> None:
    start = clock.wall()
    await write(
        tenant,
        new("over", "pune tea", valid_until=moment(start + 10)),
        new("gone", "pune tea", expires_at=moment(start + 50)),
        new("stays", "pune tea"),
    )
    then = moment(start + 5)
    clock.advance(20)
    assert set(totals(await search(engine, tenant, DANA, clock.wall()))) == {"gone", "stays"}
    past = await search(engine, tenant, DANA, then.timestamp(), as_of=then)
    assert set(totals(past)) == {"over", "gone", "stays"}
    clock.advance(100)
    past = await search(engine, tenant, DANA, then.timestamp(), as_of=then)
    assert set(totals(past)) == {"over", "stays"} and past.visible == 2


async def test_what_is_destroyed_while_the_past_is_read_is_not_served(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tenant, new("a", "pune tea"), new("b", "pune tea"))
    then = moment(engine.clock.wall())
    loaded, go_on = threading.Event(), threading.Event()
    load = tenant.store.load_rung_as_of

    def held(rung: Rung, at: datetime, fingerprint: str) -> Iterator[IndexedMemory]:
        rows = list(load(rung, at, fingerprint))
        loaded.set()
        assert go_on.wait(10)
        return iter(rows)

    monkeypatch.setattr(tenant.store, "load_rung_as_of", held)
    searching = asyncio.create_task(search(engine, tenant, DANA, then.timestamp(), as_of=then))
    try:
        assert await asyncio.to_thread(loaded.wait, 10)
        await tenant.delete(["a"], visible_from=None, request_id=None)
    finally:
        go_on.set()
    assert set(totals(await searching)) == {"b"}


async def test_a_version_that_is_not_reached_is_refused_for_the_past_too(
    engine: Engine, tenant: Tenant
) -> None:
    await write(tenant, new("a", "pune"))
    then = moment(engine.clock.wall())
    with pytest.raises(VersionNotReached):
        await search(engine, tenant, DANA, then.timestamp(), as_of=then, min_version=2)
