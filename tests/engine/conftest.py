"""An engine on a temporary folder with a model without weights, and a short way to write to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.engine import Engine, EngineSettings
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory
from precall.engine.memory.outcomes import WriteOutcome
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Tenant
from precall.scoring.terms import analyze
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import DANA, moment

StartEngine = Callable[[], Awaitable[Engine]]

ANTICIPATION = AnticipationSettings(heartbeat_seconds=0.02, lease_seconds=0.2)
"""Seconds of real time, for what waits on the event loop's own clock."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def start_engine(tmp_path: Path, clock: FakeClock) -> AsyncIterator[StartEngine]:
    """Starts an engine on the test's folder; close it before you start the next one."""
    started: list[Engine] = []

    async def start() -> Engine:
        settings = EngineSettings(
            tmp_path / "data", anticipation=ANTICIPATION, partitions=PartitionSettings(exact_below=20)
        )
        engine = Engine(settings, FakeEncoder(), clock=clock)
        await engine.start()
        started.append(engine)
        return engine

    yield start
    for engine in started:
        await engine.close()


@pytest.fixture
async def engine(start_engine: StartEngine) -> Engine:
    return await start_engine()


@pytest.fixture
async def tenant(engine: Engine) -> Tenant:
    return await engine.create_tenant("t", Ladder(("customer", "user")))


def new(memory_id: str, text: str, rung: Rung = DANA, *, at: float = 0.0, **fields: Any) -> NewMemory:
    """A memory whose event was ``at`` seconds after the clock's start."""
    when = moment(1_770_000_000.0 + at)
    return NewMemory(id=memory_id, rung=rung, text=text, event_time=when, said_time=when, **fields)


async def write(tenant: Tenant, *memories: NewMemory, request_id: str | None = None) -> WriteOutcome:
    return await tenant.write(memories, [None] * len(memories), request_id=request_id, truncate=False)


async def found(
    engine: Engine, tenant: Tenant, text: str, rung: Rung = DANA, *, min_version: int = 0
) -> list[str]:
    """Ids of what a search finds, best first."""
    vector = await tenant.model().embed_turn(text)
    query = Query(vector, analyze(text), engine.clock.wall(), limit=50)
    return [hit.memory.id for hit in (await tenant.search(rung, query, min_version=min_version)).hits]
