"""A process with conversations: the real client on a clock of its own, behind a link."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from precall.client import (
    AsyncClient,
    AsyncSession,
    ClientOptions,
    EncodedQuery,
    LocalEncoding,
    Read,
    async_client,
)
from precall.engine.memory.ladder import Rung
from tests.fakes.clock import LoopClock
from tests.fakes.memories import WORDS
from tests.fakes.world import CARD, LADDER, embed_words
from tests.simulation.judge import Asked, Judge
from tests.simulation.network import Link, SimulatedTransport
from tests.simulation.writer import Writer

_CHECKED: Final = 0.2
"""Share of reads after which the cache's books are checked, which takes as long as the read."""

OPTIONS: Final = ClientOptions(
    local_encoding=LocalEncoding.OFF,
    read_deadline_ms=400.0,
    observe_deadline_seconds=2.0,
    close_deadline_seconds=0.5,
    max_items=24,
    live_check_share=0.2,
    reconnect_initial_seconds=0.05,
    reconnect_maximum_seconds=1.0,
    report_interval_seconds=1.0,
)


@lru_cache(maxsize=4096)
def embed(text: str) -> NDArray[np.float32]:
    return embed_words(text)


class WordEncoder:
    """Takes no time, so that a schedule's time is spent on the network."""

    model_fingerprint = CARD.fingerprint

    async def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery(embed(text))

    def warm(self, text: str) -> None: ...


@dataclass
class SkewedClock:
    """``ahead``: seconds by which this computer's wall clock is wrong."""

    ahead: float = 0.0

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time() + 100.0

    def wall(self) -> float:
        return LoopClock.START + asyncio.get_running_loop().time() + self.ahead


class Agent:
    """One process after another at the same place: each is left, or dies, and another begins."""

    def __init__(
        self,
        judge: Judge,
        writer: Writer,
        link: Link,
        rungs: Sequence[Rung],
        chance: random.Random,
        end: float,
    ) -> None:
        """``rungs``: of its sessions, one each. ``end``: when the last process is left."""
        self.link = link
        self._judge = judge
        self._writer = writer
        self._rungs = rungs
        self._chance = chance
        self._end = end
        self._clock = SkewedClock(chance.choice((0.0, 0.0, -40.0, 3600.0)))
        self._said = self._words()

    async def live(self) -> None:
        while self._judge.now < self._end:
            await self._process(self._judge.now + self._chance.uniform(1.0, self._end))
            self.link = self.link.another()
            await asyncio.sleep(self._chance.uniform(0, 0.5))

    def jump(self) -> None:
        """Somebody sets the wall clock."""
        self._clock.ahead += self._chance.choice((-3600.0, -5.0, 5.0, 3600.0))

    async def _process(self, until: float) -> None:
        async with AsyncExitStack() as stack:
            with mock.patch.object(async_client, "Transport", return_value=SimulatedTransport(self.link)):
                client = AsyncClient(
                    "simulated:1", api_key="k", options=OPTIONS, encoder=WordEncoder(), clock=self._clock
                )
            await stack.enter_async_context(client)
            async with asyncio.TaskGroup() as talks:
                for rung in self._rungs:
                    session = await stack.enter_async_context(client.session(LADDER.scope(rung)))
                    self._judge.caches.append(session._subscription.cache)
                    stack.callback(self._judge.caches.remove, session._subscription.cache)
                    talks.create_task(self._talk(session, rung, min(until, self._end)))
            if self._chance.random() < 0.5:
                self.link.die()

    async def _talk(self, session: AsyncSession, rung: Rung, until: float) -> None:
        chance = self._chance
        read: Read | None = None
        while self._judge.now < until:
            await asyncio.sleep(chance.uniform(0, 0.4))
            if self.link.asleep:
                continue
            match chance.choices(("observe", "answer", "read", "write"), (3, 1, 9, 1))[0]:
                case "observe":
                    self._said = self._words()
                    session.observe("user", self._said, partial=chance.random() < 0.5)
                case "answer":
                    session.observe("assistant", self._words(), used=read)
                case "read":
                    read = await self._read(session, rung)
                case _:
                    written = self._writer.write(self.link.tenant_id, rung)
                    await written.ack
                    await self._read(session, rung, min_version=written.version)

    async def _read(self, session: AsyncSession, rung: Rung, min_version: int = 0) -> Read:
        words = self._question()
        asked = Asked(
            tenant_id=self.link.tenant_id,
            rung=rung,
            words=words,
            vector=embed(words),
            limit=self._chance.choice((3, 3, 40)),
            min_version=min_version,
            began=self._judge.now,
        )
        read = await session.read(
            words,
            limit=asked.limit,
            min_version=min_version,
            deadline_ms=self._chance.choice((0, 100, 400)),
        )
        cache = session._subscription.cache
        self._judge.judge(read, asked, cache._items, self._clock.elapsed())
        if self._chance.random() < _CHECKED:
            cache.check_integrity()
        return read

    def _question(self) -> str:
        """What was just said, nearly that, or something else."""
        said = self._said.split()
        changed = self._chance.choice((0, 0, 1, len(said)))
        return " ".join([*said[changed:], *self._chance.choices(WORDS, k=changed)])

    def _words(self) -> str:
        return " ".join(self._chance.choices(WORDS, k=3))
