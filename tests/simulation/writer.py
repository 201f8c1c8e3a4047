"""Those who write: what changes, and when they are told that it has."""

import asyncio
import random
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.keyword import document_impacts
from tests.fakes.memories import WORDS
from tests.simulation.judge import Broken, Judge
from tests.simulation.server import SimulatedServer


@dataclass(frozen=True)
class Written:
    """``ack``: ends when the writer was told, or its server died."""

    version: int
    ack: asyncio.Task[None]


class Writer:
    """``patience``: seconds in which an ack must come, unless the server has to wait out leases of before."""

    def __init__(
        self,
        server: SimulatedServer,
        judge: Judge,
        rungs: Sequence[Rung],
        chance: random.Random,
        patience: float,
    ) -> None:
        self.acks = 0
        self._server = server
        self._judge = judge
        self._rungs = rungs
        self._chance = chance
        self._patience = patience

    def fill(self, tenant_id: str, memories: int) -> None:
        """Before anybody is there."""
        made = [self._new_memory(tenant_id, self._chance.choice(self._rungs)) for _ in range(memories)]
        self._server.world.write(tenant_id, made)

    async def keep_writing(self, tenant_id: str, longest_pause: float) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0, longest_pause))
            if self._server.up:
                self.write(tenant_id, self._chance.choice(self._rungs))

    def write(self, tenant_id: str, rung: Rung) -> Written:
        """A write, a supersede, a delete, a rung forgotten, or some weighed anew."""
        chance = self._chance
        kind = chance.choices(("write", "supersede", "delete", "weigh", "forget"), (4, 2, 4, 2, 0.3))[0]
        stored = self._server.world.current(tenant_id)
        here = [memory_id for memory_id, each in stored.items() if each.memory.rung == rung]
        removed: list[str] = []
        added: list[IndexedMemory] = []
        if kind in ("delete", "supersede"):
            removed = self._one_of(here)
        elif kind == "forget":
            removed = here
        elif kind == "weigh":
            impacts = document_impacts(chance.choices(WORDS, k=4))
            chosen = chance.sample(here, min(2, len(here)))
            added = [replace(stored[memory_id], impacts=impacts) for memory_id in chosen]
        if kind in ("write", "supersede") or not (removed or added):
            added.append(self._new_memory(tenant_id, rung))
        self._judge.ask_removal(removed)
        again = [each.memory.id for each in added if each.memory.id in stored]
        confirmation = self._server.world.write(tenant_id, added, [*removed, *again])
        return Written(
            self._server.world.versions[tenant_id],
            asyncio.create_task(self._acknowledge(removed, confirmation)),
        )

    def _one_of(self, memory_ids: Sequence[str]) -> list[str]:
        """Rather what some cache holds, lately served, or which no session of the server holds any more."""
        cached = self._judge.cached.intersection(memory_ids)
        leaving = cached.difference(*(session.held.ids for session in self._server.sessions))
        lately = cached.intersection(self._judge.served_lately)
        preferred = (leaving, lately) if self._chance.random() < 0.5 else (lately, leaving)
        chosen = next((some for some in (*preferred, cached) if some), memory_ids)
        return self._chance.sample(sorted(chosen), min(1, len(chosen)))

    def _new_memory(self, tenant_id: str, rung: Rung) -> IndexedMemory:
        memory_id = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        text = f"{tenant_id} {' '.join(self._chance.choices(WORDS, k=4))}"
        importance = self._chance.choice((0.1, 0.5, 0.9))
        return self._server.world.memory(memory_id, rung, text, importance=importance)

    async def _acknowledge(self, removed: Collection[str], confirmation: Confirmation) -> None:
        server, judge = self._server, self._judge
        generation, began = server.generation, judge.now
        guard = max(server.guarded_until - began, 0.0)
        await confirmation.wait()
        await asyncio.sleep(max(server.guarded_until - judge.now, 0.0))
        if generation != server.generation:
            return  # the server died meanwhile: nobody was told anything
        if judge.now - began > self._patience + guard + 1e-6:
            raise Broken(f"an ack took {judge.now - began:.2f} s")
        self.acks += 1
        judge.ack_removal(removed)
