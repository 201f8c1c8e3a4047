"""The books of sessions: who is concerned, who has left, and that nobody's coming costs what all cost."""

import pytest

from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.errors import Overloaded
from precall.engine.memory.ladder import Rung
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.world import World

SETTINGS = AnticipationSettings(sessions_per_stream=2)


def world_of(*, leases: int) -> tuple[World, FakeClock]:
    """Sessions of as many streams, each stream with a lease."""
    clock = FakeClock()
    world = World(clock, SETTINGS)
    for number in range(leases):
        world.open_stream("t", f"stream {number}")
        world.open_session("t", f"stream {number}", f"s{number}", DANA)
        world.anticipator.renew_lease("t", f"stream {number}", 0)
    return world, clock


def departed(world: World) -> list[Session]:
    return world.anticipator._sessions.departed("t")


def test_a_session_that_is_opened_again_on_a_full_stream_takes_its_own_place() -> None:
    world, _ = world_of(leases=0)
    world.open_stream("t", "full")
    for session_id in ("a", "b", "a"):  # the reply to the first opening of a was lost
        world.open_session("t", "full", session_id, DANA)
    with pytest.raises(Overloaded):
        world.open_session("t", "full", "c", DANA)
    world.anticipator.check_integrity()


def test_a_departed_session_is_forgotten_with_its_lease_though_nobody_comes_or_goes() -> None:
    world, clock = world_of(leases=3)
    for stream in list(world.anticipator._streams):
        world.anticipator.close_stream(stream, "lost")
    assert len(departed(world)) == 3
    world.anticipator.check_integrity()
    clock.advance(SETTINGS.lease_seconds + 1)
    assert not departed(world)
    world.anticipator.heartbeat("another tenant")
    sessions = world.anticipator._sessions
    assert not sessions._departed and not sessions._departures, "what they held would stay in memory"
    world.anticipator.check_integrity()


def test_whoever_was_taken_over_from_is_no_holder_any_more() -> None:
    world, _ = world_of(leases=2)
    for stream in list(world.anticipator._streams):
        world.anticipator.close_stream(stream, "lost")
    world.open_stream("t", "new")
    world.open_session("t", "new", "s0", DANA)
    assert [session.id for session in departed(world)] == ["s1"]
    world.anticipator.check_integrity()


def test_a_stream_with_many_sessions_closes_without_looking_at_each_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(FakeClock(), AnticipationSettings())
    stream = world.open_stream("t", "one")
    for number in range(200):
        world.open_session("t", "one", f"s{number}", DANA)
    world.anticipator.renew_lease("t", "one", 0)
    looks = 0
    kind = type(stream.lease)
    remaining = kind.remaining.fget
    assert remaining is not None

    def counted(lease: object) -> float:
        nonlocal looks
        looks += 1
        return float(remaining(lease))

    monkeypatch.setattr(kind, "remaining", property(counted))
    world.anticipator.close_stream(stream, "lost")
    world.open_stream("t", "two")
    for number in range(200):
        world.open_session("t", "two", f"s{number}", DANA)
    assert looks <= 5 * 200, f"{looks} looks at a lease for 200 sessions that left and came back"
    world.anticipator.check_integrity()


def test_a_write_asks_only_those_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(FakeClock(), AnticipationSettings())
    world.open_stream("t", "one")
    for number in range(50):
        world.open_session("t", "one", f"s{number}", Rung(("acme", f"user {number}")))
    world.open_session("t", "one", "dana", DANA)
    asked: list[str] = []
    written_push, may_hold = Session.written_push, Session.may_hold

    def writing(session: Session, *arguments: object, **options: object) -> object:
        asked.append(session.id)
        return written_push(session, *arguments, **options)  # type: ignore[arg-type]

    def holding(session: Session, memory_id: str) -> bool:
        asked.append(session.id)
        return may_hold(session, memory_id)

    monkeypatch.setattr(Session, "written_push", writing)
    monkeypatch.setattr(Session, "may_hold", holding)
    world.write("t", [world.memory("d", DANA, "pune")])
    world.write("t", removed=["d"])
    assert set(asked) == {"dana"}
    asked.clear()
    world.write("t", [world.memory("e", EVE, "pune")])
    assert not asked
    world.write("t", [world.memory("a", ACME, "for all")])
    assert len(asked) == 51
