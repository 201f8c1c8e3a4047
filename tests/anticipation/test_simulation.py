"""Random schedules of everything at once, on a virtual clock: the promises that the product rests on.

- From the moment a delete or supersede is acked, no client whose lease is fresh holds the old memory. The
  client counts its lease from the moment it *sent* the renewal, and serves what a stream brought under that
  stream's lease, through a lost connection too.
- A client that claims a rung complete at a version holds exactly what the store held at that version, with
  the keyword weights that it had there.
- An ack comes within a heartbeat's patience and one lease, whatever the clients do.
- Nobody is sent a memory of another tenant or of a rung that is not above its own.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.events import Heartbeat, Push
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.errors import NotFound
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.keyword import document_impacts
from tests.fakes.clock import LoopClock
from tests.fakes.memories import ACME, DANA, EVE, WORDS
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import LADDER, World, embed_words

Run = Callable[[Coroutine[Any, Any, Any]], Any]

SETTINGS = AnticipationSettings(
    heartbeat_seconds=1.0,
    lease_seconds=5.0,
    complete_below=8,
    items_per_query=6,
    coverages_kept=2,
    max_items=20,
    push_part_items=3,
    stream_queue_events=25,
)
SECONDS = 90.0


@dataclass
class Removed:
    """``acked_at`` is infinite while the writer still waits."""

    tenant: str
    asked_at: float
    acked_at: float = float("inf")


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(LoopClock(), SETTINGS, embed=self.embed)
        self.removed: dict[str, Removed] = {}
        self.serial = 0
        self.acks = self.checks = self.reconnections = self.resumptions = self.claims = 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def pause(self, longest: float) -> None:
        await asyncio.sleep(self.random.uniform(0, longest))

    async def embed(self, tenant_id: str, text: str) -> NDArray[np.float32]:
        await self.pause(0.5)
        return embed_words(text)

    def words(self) -> str:
        return " ".join(self.random.choices(WORDS, k=4))

    async def writer(self, tenant: str) -> None:
        """Writes, supersedes and deletes without waiting for its own acks, as many writers would."""
        acks: set[asyncio.Task[None]] = set()
        while self.now < SECONDS:
            await self.pause(0.8)
            rung = self.random.choice((DANA, DANA, ACME, EVE))
            self.serial += 1
            new = self.world.memory(f"{tenant}{self.serial}", rung, self.words())
            current = [i for i, m in self.world.current(tenant).items() if m.memory.rung == rung]
            gone = self.random.sample(current, min(len(current), self.random.choice((0, 0, 1, 1, 3))))
            added = [new] if self.random.random() < 0.6 else []
            again = self.weighed_anew(tenant, [i for i in current if i not in gone])
            replaced = [each.memory.id for each in again]
            confirmation = self.world.write(tenant, [*added, *again], [*gone, *replaced])
            acks.add(asyncio.create_task(self.acknowledge(tenant, gone, confirmation.wait())))
        await asyncio.gather(*acks)

    def weighed_anew(self, tenant: str, current: Sequence[str]) -> list[IndexedMemory]:
        """Some of what stays, with other keyword weights: another turn came before it, or went."""
        chosen = self.random.sample(current, min(len(current), self.random.choice((0, 0, 1, 2))))
        stored = self.world.current(tenant)
        return [replace(stored[i], impacts=document_impacts(self.words().split())) for i in chosen]

    async def acknowledge(self, tenant: str, gone: list[str], confirmed: Coroutine[Any, Any, None]) -> None:
        for memory_id in gone:
            self.removed[memory_id] = Removed(tenant, self.now)
        started = self.now
        await confirmed
        assert self.now - started <= SETTINGS.heartbeat_seconds + SETTINGS.lease_seconds + 1e-6
        for memory_id in gone:
            self.removed[memory_id].acked_at = self.now
        self.acks += bool(gone)


class SimulatedClient:
    """One session over many connections. It serves from ``cache``, under the lease of ``source``."""

    def __init__(self, simulation: Simulation, tenant: str, rung: Rung, session_id: str) -> None:
        self.simulation, self.world = simulation, simulation.world
        self.tenant, self.rung, self.session_id = tenant, rung, session_id
        self.cache = StreamClient(session_id)
        self.source: Stream | None = None
        self.lease_ends: dict[Stream | None, float] = {}
        self.connections = 0
        self.observations = 0

    @property
    def fresh(self) -> bool:
        return self.simulation.now < self.lease_ends.get(self.source, float("-inf"))

    def check(self) -> None:
        """What it serves now is nothing that was acked as removed, and nothing of anybody else's."""
        self.simulation.checks += 1
        if self.fresh:
            for memory_id in self.cache.items:
                removed = self.simulation.removed.get(memory_id)
                assert removed is None or self.simulation.now <= removed.acked_at, memory_id
        for memory_id, item in self.cache.items.items():
            assert memory_id.startswith(self.tenant)
            assert item.indexed.memory.rung.is_visible_from(self.rung)

    async def live(self) -> None:
        """Connect, and connect anew after each loss, at once or after a while."""
        while self.simulation.now < SECONDS:
            self.connections += 1
            stream = self.world.open_stream(self.tenant, f"{self.session_id}#{self.connections}")
            connection = asyncio.create_task(self.connection(stream))
            lifetime = self.simulation.random.choice((0.3, 3.0, 15.0, 30.0))
            await asyncio.wait([connection], timeout=self.simulation.random.uniform(0, lifetime))
            connection.cancel()
            await asyncio.gather(connection, return_exceptions=True)
            if not connection.cancelled() and connection.exception() is not None:
                raise connection.exception()  # type: ignore[misc]
            # The server learns of the loss late, perhaps after the client is back on another stream.
            asyncio.get_running_loop().call_later(
                self.simulation.random.uniform(0, 4.0), self.world.anticipator.close_stream, stream, "lost"
            )
            await self.simulation.pause(self.simulation.random.choice((0.2, 2.0, 8.0)))
            self.simulation.reconnections += 1

    async def connection(self, stream: Stream) -> None:
        following = StreamClient(self.session_id)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follow(stream, following))
            await self.simulation.pause(0.1)
            if not stream.open:
                return
            named = self.cache.stamps() if self.simulation.random.random() < 0.7 else None
            self.simulation.resumptions += bool(named)
            self.world.open_session(self.tenant, stream.id, self.session_id, self.rung, named=named or None)
            tasks.create_task(self.renew(stream, following))
            tasks.create_task(self.speak())

    async def follow(self, stream: Stream, following: StreamClient) -> None:
        """Apply events with delays. The old cache is served until the first push of the new connection, which
        drops it or goes on from it.
        """
        slowness = self.simulation.random.choice((0.0, 0.05, 0.4))
        while event := await stream.next(
            lambda: self.world.anticipator.heartbeat(self.tenant), SETTINGS.heartbeat_seconds
        ):
            await self.simulation.pause(slowness)
            for memory_id in getattr(event.body, "memory_ids", ()):
                self.cache.items.pop(memory_id, None)
            if isinstance(event.body, Push) and event.body.resumed:
                following.items = self.cache.items
            following.apply(event)
            if isinstance(event.body, Push) and (event.body.reset or event.body.resumed):
                self.cache, self.source = following, stream
            if isinstance(event.body, Heartbeat) or (isinstance(event.body, Push) and event.body.last):
                self.check_claims(following)
            self.check()

    def check_claims(self, following: StreamClient) -> None:
        """Complete at a version means: what the store held at that version, no more, no less, no other."""
        for level, claim in following.rungs.items():
            if claim.complete:
                self.simulation.claims += 1
                rung = Rung(self.rung.values[: LADDER.levels.index(level) + 1])
                history = self.world.history.get(self.tenant, {})
                stored = history.get(following.version, {})
                expected = {i: m.impacts for i, m in stored.items() if m.memory.rung == rung}
                assert {i: following.items[i].indexed.impacts for i in following.held(level)} == expected

    async def renew(self, stream: Stream, following: StreamClient) -> None:
        while True:
            sent_at, applied = self.simulation.now, following.applied
            await self.simulation.pause(0.3)
            try:
                granted = self.world.anticipator.renew_lease(self.tenant, stream.id, applied)
            except NotFound:
                return
            if self.simulation.random.random() < 0.9:  # else the reply is lost
                await self.simulation.pause(0.3)
                if granted:
                    self.lease_ends[stream] = max(self.lease_ends.get(stream, 0.0), sent_at + granted)
            await asyncio.sleep(SETTINGS.heartbeat_seconds * self.simulation.random.choice((0.2, 1.0, 4.0)))

    async def speak(self) -> None:
        while True:
            await self.simulation.pause(2.0)
            self.observations += 1
            turn = Turn(TurnRole.USER, self.simulation.words())
            try:
                self.world.anticipator.observe(
                    self.tenant, self.session_id, self.observations, turn, partial=self.observations % 3 > 0
                )
            except NotFound:
                return


@pytest.mark.parametrize("seed", range(12))
def test_no_schedule_breaks_a_promise(seed: int, run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        simulation = Simulation(seed)
        clients = [
            SimulatedClient(simulation, tenant, rung, f"{tenant}-{rung.values[-1]}-{number}")
            for tenant in "tu"
            for number, rung in enumerate((DANA, DANA, EVE, ACME))
        ]

        async def watch() -> None:
            while simulation.now < SECONDS + 10:
                await asyncio.sleep(0.1)
                for client in clients:
                    client.check()
                simulation.world.anticipator.check_integrity()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch())
            for tenant in "tu":
                tasks.create_task(simulation.writer(tenant))
            for client in clients:
                tasks.create_task(client.live())
        await simulation.world.anticipator._prediction.close()
        assert simulation.acks > 50 and simulation.reconnections > 20 and simulation.resumptions > 10
        assert simulation.claims > 100 and simulation.checks > 1_000

    run_on_virtual_clock(scenario())
