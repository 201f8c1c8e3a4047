"""One schedule, from a seed: all that may happen to a few processes and a server within some seconds."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from precall.client import cache
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.memory.ladder import Rung
from precall.scoring import evidence
from precall.scoring.calibration import CalibratedPart, Calibration
from precall.scoring.evidence import Evidence
from tests.fakes.clock import LoopClock
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.world import CARD, World
from tests.simulation.agent import Agent, embed
from tests.simulation.judge import Judge
from tests.simulation.network import Link
from tests.simulation.server import SimulatedServer
from tests.simulation.writer import Writer

SETTINGS: Final = AnticipationSettings(
    heartbeat_seconds=0.5,
    lease_seconds=2.0,
    complete_below=8,
    items_per_query=6,
    coverages_kept=2,
    max_items=20,
    push_part_items=3,
    push_parts_waiting=6,
    stream_queue_events=60,
)
_RUNGS: Final = (DANA, EVE, ACME, Rung(("bolt", "finn")))
_TENANTS: Final = "tu"
_MEMORIES: Final = (12, 40)
"""Of a tenant at the beginning."""
_TROUBLES: Final = ("break", "cut", "cut and break", "sleep", "jump", "crash", "drain")
_TRUSTING: Final = 0.25
"""Share of schedules where a calibration finds any answer good enough: what is served must still stand."""

_NOTHING: Final = Evidence(**dict.fromkeys(evidence.NAMES, 0.0))
_ALWAYS: Final = CalibratedPart(_NOTHING, intercept=1.0, sure=0.0, borderline=0.0)
_TRUST: Final = Calibration(CARD.fingerprint, _ALWAYS, _ALWAYS, "none: it trusts whatever is held")

_GRACE: Final = 60.0
"""Seconds after its end by which a schedule must be over: until then somebody may wait for a timeout."""


@dataclass(frozen=True)
class Outcome:
    """How often each thing happened."""

    reads: int = 0
    from_cache: int = 0
    complete: int = 0
    sure: int = 0
    acks: int = 0

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


class Schedule:
    """``seconds``: how long processes live. ``agents``: places where one process follows another."""

    def __init__(self, seed: int, *, seconds: float = 6.0, agents: int = 2) -> None:
        self._chance = random.Random(seed)
        self._seconds = seconds
        self._agents = agents

    async def run(self) -> Outcome:
        """Raises Broken, TimeoutError when something hangs, or whatever else went wrong, in a group."""
        async with asyncio.timeout(self._seconds + _GRACE):
            return await self._run()

    async def _run(self) -> Outcome:
        chance = self._chance
        settings = replace(
            SETTINGS,
            complete_below=chance.choice((2, 8)),
            max_items=chance.choice((8, 20)),
            maximum_age_seconds=chance.choice((2.0, 6.0)),
        )
        trusting = chance.random() < _TRUSTING
        with mock.patch.object(cache, "CALIBRATIONS", {CARD.fingerprint: _TRUST} if trusting else {}):
            return await self._run_with(settings, trusting=trusting)

    async def _run_with(self, settings: AnticipationSettings, *, trusting: bool) -> Outcome:
        chance = self._chance
        world = World(LoopClock(), settings, embed=self._embed_late)
        judge = Judge(world, settings.maximum_age_seconds, trusting)
        server = SimulatedServer(world, settings, chance)
        patience = settings.heartbeat_seconds + settings.lease_seconds
        writer = Writer(server, judge, _RUNGS, chance, patience)
        for tenant_id in _TENANTS:
            writer.fill(tenant_id, chance.choice(_MEMORIES))
        agents = [
            Agent(
                judge,
                writer,
                Link(server, chance.choice("ttu"), chance),
                chance.choices(_RUNGS, k=chance.choice((1, 1, 2))),
                chance,
                self._seconds,
            )
            for _ in range(self._agents)
        ]
        async with asyncio.TaskGroup() as tasks:
            living = [tasks.create_task(agent.live()) for agent in agents]
            beside = [tasks.create_task(self._trouble(server, agents))]
            beside += [
                tasks.create_task(writer.keep_writing(tenant_id, pause))
                for tenant_id, pause in zip(_TENANTS, (0.5, 2.0), strict=True)
            ]
            await asyncio.wait(living)
            for task in beside:
                task.cancel()
        server.world.anticipator.check_integrity()
        await server.stop()
        return Outcome(judge.reads, judge.from_cache, judge.complete, judge.sure, writer.acks)

    async def _embed_late(self, text: str) -> NDArray[np.float32]:
        await asyncio.sleep(self._chance.uniform(0, 0.2))
        return embed(text)

    async def _trouble(self, server: SimulatedServer, agents: Sequence[Agent]) -> None:
        chance = self._chance
        while True:
            await asyncio.sleep(chance.uniform(0, 2.0))
            agent = chance.choice(agents)
            match chance.choices(_TROUBLES, (2, 1, 1, 1, 1, 1, 1))[0]:
                case "break":
                    agent.link.break_streams()
                case "cut":
                    agent.link.cut(chance.uniform(0, 2.5))
                case "cut and break":
                    agent.link.cut(chance.uniform(0, 2.5))
                    agent.link.break_streams()
                case "sleep":
                    agent.link.suspend(chance.uniform(0, 4.0))
                case "jump":
                    agent.jump()
                case "crash":
                    await server.crash(chance.uniform(0, 1.5))
                case _:
                    await server.drain()
