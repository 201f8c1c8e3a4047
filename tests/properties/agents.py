"""Agents in conversations: clients with a cache and an encoder of their own."""

import asyncio
import time
from contextlib import AsyncExitStack

from precall.client import AsyncClient, AsyncSession, ClientOptions
from precall.engine.memory.ladder import Ladder, Rung
from tests.fakes.clock import FakeClock
from tests.properties.service import LEVELS
from tests.properties.vectors import LocalFakeEncoder

DEADLINE = 30.0
"""Seconds after which a call or a wait has failed."""

_LADDER = Ladder(LEVELS)


class AgentClock:
    """Of an agent on the server's machine: its wall clock is the server's, its spans are real."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def wall(self) -> float:
        return self._clock.wall()

    def elapsed(self) -> float:
        return time.monotonic()


class Agents:
    """One for each tenant and rung that was asked for, until they hang up.

    ``encoders``: the model that a session's agent has an encoder of.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = AgentClock(clock)
        self._conversations = AsyncExitStack()
        self.sessions: dict[tuple[str, Rung], AsyncSession] = {}
        self.encoders: dict[AsyncSession, str] = {}

    async def session(self, tenant: str, rung: Rung, *, target: str, key: str, model: str) -> AsyncSession:
        """A conversation, its cache filled; one that is open stays so, with the encoder that it has."""
        if (tenant, rung) not in self.sessions:
            client = AsyncClient(
                target,
                api_key=key,
                options=ClientOptions(read_deadline_ms=20_000),
                encoder=LocalFakeEncoder(model),
                clock=self._clock,
            )
            await self._conversations.enter_async_context(client)
            session = client.session(_LADDER.scope(rung))
            await self._conversations.enter_async_context(session)
            assert await session.ready(DEADLINE)
            self.sessions[tenant, rung], self.encoders[session] = session, model
        return self.sessions[tenant, rung]

    async def come_back(self, session: AsyncSession, pushes: int) -> None:
        """Return when the session, which had so many pushes, holds what it was pushed anew."""
        async with asyncio.timeout(DEADLINE):
            while True:
                if session.state.pushes > pushes and session.state.ready:
                    return
                await asyncio.sleep(0.002)  # nothing tells an agent of it

    async def hang_up(self) -> None:
        """Every conversation ends."""
        self.sessions.clear()
        self.encoders.clear()
        await self._conversations.aclose()
        self._conversations = AsyncExitStack()
