"""What a long session has let go of is kept in mind until its client has let go of it, and no longer."""

from types import SimpleNamespace
from typing import cast

from precall.engine.anticipation.stream import Stream
from tests.fakes.clock import FakeClock
from tests.fakes.memories import DANA
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
