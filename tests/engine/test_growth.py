"""What comes and goes leaves nothing behind: memory does not grow with what was written, read and destroyed.

Each round of a busy life has a name that is part of all its ids, words, keys, users, sessions and tenants.
A few rounds later no object in the process may hold that name.
"""

import asyncio
import functools
import gc
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.engine import Engine, EngineSettings
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import Source
from precall.engine.residency import ResidencySettings
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Tenant
from precall.scoring.terms import analyze
from tests.engine.conftest import ANTICIPATION, new, write
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import ACME

LADDER: Final = Ladder(("customer", "user"))
ROUNDS: Final = 8
LATEST: Final = 2
"""Rounds of which something may be left: it goes when something else comes."""

_ROUND: Final = re.compile(r"round(\d+)o")


@pytest.fixture
async def engine(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Engine]:
    """With codes from the first memories on, and room for few partitions and files that nobody uses."""
    settings = EngineSettings(
        tmp_path / "data",
        anticipation=ANTICIPATION,
        partitions=PartitionSettings(exact_below=4, listed_from=10**9),
        residency=ResidencySettings(budget_bytes=30_000, open_files=2),
    )
    engine = Engine(settings, FakeEncoder(), clock=clock)
    await engine.start()
    yield engine
    await engine.close()


class Life:
    """Rounds in which everything is new, and gone in the end: ids, words, keys, users, tenants, sessions."""

    def __init__(self, engine: Engine, tenant: Tenant, clock: FakeClock) -> None:
        self.engine = engine
        self.tenant = tenant
        self.clock = clock
        self.standing = asyncio.all_tasks()

    async def round(self, number: int) -> None:
        name = f"round{number}o"
        rung = Rung(("acme", f"user{name}"))
        facts = [
            new(
                f"{name}-{n}",
                f"word{name}{n} tea",
                rung if n % 2 else ACME,
                at=number,
                key=f"key{name}" if n == 1 else "",
                metadata={f"field{name}": f"value{n}"},
                source=Source(conversation_id=f"conversation{name}"),
            )
            for n in range(8)
        ]
        await write(self.tenant, *facts)
        for conversation in range(5):
            await self._converse(rung, f"{name}-{conversation}")
        correction = new(f"{name}-next", "corrected tea", rung, at=number + 1, key=f"key{name}")
        await write(self.tenant, correction)
        await self._search(rung, name)
        await self.tenant.forget_scope(rung, request_id=None)
        await self.tenant.delete([fact.id for fact in facts], visible_from=None, request_id=None)
        if number % 3 == 0:
            await self._another_tenant(f"tenant{name}")
        while under_way := asyncio.all_tasks() - self.standing:  # what sessions asked for
            await asyncio.wait(under_way)

    async def _converse(self, rung: Rung, name: str) -> None:
        anticipator, stream_id, session_id = self.engine.anticipator, f"s{name}", f"c{name}"
        stream = anticipator.open_stream("t", stream_id, self.tenant.model().card)
        anticipator.open_session(
            tenant_id="t",
            stream_id=stream_id,
            session_id=session_id,
            conversation_id="",
            rung=rung,
            ladder=LADDER,
            model=self.tenant.model(),
            partitions=await self.tenant.partitions(rung),
            version=self.tenant.version,
        )
        anticipator.observe("t", session_id, 1, Turn(TurnRole.USER, f"said{name}"), partial=False)
        if anticipator.renew_lease("t", stream_id, 1):
            self.clock.advance(60)  # past the lease: nothing waits for a client that is gone
        if name.endswith(("1", "3")):
            anticipator.close_session("t", session_id)
        anticipator.close_stream(stream, "the connection ended")

    async def _search(self, rung: Rung, name: str) -> None:
        vector = await self.tenant.model().embed_turn(f"word{name}1")
        asked = MemoryFilter(metadata={f"field{name}": "value3"})
        query = Query(vector, analyze(f"word{name}1"), self.engine.clock.wall(), filter=asked)
        assert (await self.tenant.search(rung, query)).visible == 1

    async def _another_tenant(self, name: str) -> None:
        other = await self.engine.create_tenant(name, LADDER)
        await write(other, new("m", f"tea of {name}"))
        await other.partitions(ACME)
        await self.engine.delete_tenant(name)


def rounds_in_memory() -> set[int]:
    """Numbers of the rounds whose names some object holds."""
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and each.cache_info().maxsize is not None:
            each.cache_clear()  # full of what comes and goes, but bounded
    gc.collect()
    found: set[int] = set()
    seen: set[int] = set()
    holders = gc.get_objects()
    while holders:
        holder = holders.pop()
        keys = list(holder) if isinstance(holder, dict) else ()  # plain ones are no referents
        for held in (*gc.get_referents(holder), *keys):
            if isinstance(held, str):
                found.update(int(number) for number in _ROUND.findall(held))
            elif isinstance(held, dict | tuple) and not gc.is_tracked(held) and id(held) not in seen:
                seen.add(id(held))  # holds plain values alone, so that nobody else would look into it
                holders.append(held)
    return found


async def test_nothing_is_left_of_rounds_that_are_over(engine: Engine, clock: FakeClock) -> None:
    tenant = await engine.create_tenant("t", LADDER)
    await write(tenant, new("standing", "tea for everybody", ACME))
    held = await tenant.partitions(ACME)  # of one that stays, only what went may be gone
    life = Life(engine, tenant, clock)
    for number in range(ROUNDS):
        await life.round(number)
    assert {number for number in rounds_in_memory() if number < ROUNDS - LATEST} == set()
    assert [each.memory.id for each in held[0].all()] == ["standing"]
    engine.residency.check_integrity()


def test_a_name_that_is_left_is_found() -> None:
    left = [{"id": f"round{ROUNDS + 5}o-1"}, (f"round{ROUNDS + 6}o",)]
    assert {ROUNDS + 5, ROUNDS + 6} <= rounds_in_memory()
    del left[:]
    assert not {ROUNDS + 5, ROUNDS + 6} & rounds_in_memory()
