"""What a long session has let go of is kept in mind until its client has let go of it, and no longer."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from tests.fakes.clock import FakeClock, LoopClock
from tests.fakes.memories import ACME, DANA
from tests.fakes.world import World


def test_what_the_client_has_dropped_is_forgotten_however_long_the_session() -> None:
    world = World(FakeClock())
    world.open_stream("t", "one")
    session = world.open_session("t", "one", "s", DANA)
    for event in range(1, 1_000):  # an eviction each, which the client applies three events later
        session.stream = cast(Stream, SimpleNamespace(applied=event - 3))
        session.linger([f"m{event}"], until=event)
        assert session.may_hold(f"m{event}")
        assert len(session.lingering) <= 3
    assert not session.may_hold("m1")


def test_what_is_let_go_when_nobody_listens_any_more_counts_as_held_until_the_lease_has_run_out(
    run_on_virtual_clock: Callable[..., Any],
) -> None:
    """A stream that has ended, its connection not closed yet: the client is not told, and serves it still."""

    async def scenario() -> None:
        settings = replace(AnticipationSettings(), complete_below=2, max_items=4, items_per_query=3)
        world = World(LoopClock(), settings)
        world.write("t", [world.memory(f"m{n}", ACME, "dog") for n in range(10)])
        stream = world.open_stream("t", "one")
        session = world.open_session("t", "one", "s", DANA)
        world.anticipator.observe("t", "s", 1, Turn(TurnRole.USER, "dog"), partial=False)
        await world.anticipator.settle()
        pushed = next(iter(session.held.ids))
        world.anticipator.renew_lease("t", "one", stream.sent)
        stream.end("the server is shutting down")
        world.write("t", [world.memory(f"w{n}", ACME, "tea") for n in range(4)])
        assert pushed not in session.held
        began = asyncio.get_running_loop().time()
        await world.write("t", removed=[pushed]).wait()
        assert asyncio.get_running_loop().time() - began == pytest.approx(settings.lease_seconds)

    run_on_virtual_clock(scenario())
