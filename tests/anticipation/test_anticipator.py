"""Isolation, take-over after a reconnect, leases of who left: what a strict delete may rest on."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.events import Draining, Invalidation, SessionEnded, StreamOpened
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.change import ChangeCause
from precall.engine.errors import (
    AlreadyExists,
    ConfigurationError,
    Overloaded,
    SessionNotFound,
    StreamNotFound,
)
from precall.engine.memory.ladder import Rung
from tests.fakes.clock import LoopClock
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.scenario import scenario_in
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import CARD, World, embed_words

HELLO = Turn(TurnRole.USER, "pune train")


def world_of_three() -> World:
    world = World(LoopClock())
    world.write("t", [world.memory(f"d{n}", DANA, f"pune {n}") for n in range(4)])
    world.write("t", [world.memory(f"a{n}", ACME, f"train {n}") for n in range(4)])
    world.write("t", [world.memory(f"e{n}", EVE, f"tea {n}") for n in range(4)])
    return world


scenario = scenario_in(world_of_three)


def connect(
    world: World, stream_id: str, *, session: str = "s", rung: Rung = DANA, tenant: str = "t"
) -> tuple[Stream, StreamClient]:
    stream = world.open_stream(tenant, stream_id)
    world.open_session(tenant, stream_id, session, rung)
    client = StreamClient(session)
    client.drain(stream)
    return stream, client


def renew(world: World, stream: Stream, client: StreamClient) -> float:
    return world.anticipator.renew_lease(stream.tenant_id, stream.id, client.applied)


async def settle() -> None:
    """Let everything run that can, without letting time pass."""
    for _ in range(10):
        await asyncio.sleep(0)


def time() -> float:
    return asyncio.get_running_loop().time()


@scenario
async def test_a_stream_opens_with_what_the_client_must_know(world: World) -> None:
    stream = world.open_stream("t", "one")
    event = await stream.next(lambda: world.anticipator.heartbeat("t"), 1.0)
    assert event is not None and event.sequence == 1
    assert event.body == StreamOpened(1.0, 10.0, 3600.0, CARD.fingerprint, LoopClock.START, ("latin",))
    event = await stream.next(lambda: world.anticipator.heartbeat("t"), 1.0)
    assert event is not None and event.body.version == 3  # type: ignore[union-attr]


@scenario
async def test_two_users_of_a_tenant_see_their_own_and_what_is_above(world: World) -> None:
    _, dana = connect(world, "one", session="dana", rung=DANA)
    _, eve = connect(world, "two", session="eve", rung=EVE)
    _, acme = connect(world, "three", session="acme", rung=ACME)
    assert set(dana.items) == {f"{who}{n}" for who in "da" for n in range(4)}
    assert set(eve.items) == {f"{who}{n}" for who in "ea" for n in range(4)}
    assert set(acme.items) == {f"a{n}" for n in range(4)}


@scenario
async def test_two_tenants_share_nothing_not_even_ids(world: World) -> None:
    world.write("u", [world.memory("d0", DANA, "a secret of the other tenant")])
    stream, mine = connect(world, "one", session="mine")
    other_stream, other = connect(world, "two", session="other", tenant="u")
    assert other.items["d0"].indexed.memory.text == "a secret of the other tenant"
    assert renew(world, stream, mine) == renew(world, other_stream, other) == 10.0
    waiting = world.write("u", removed=["d0"])
    other.drain(other_stream)
    await waiting.wait()
    mine.drain(stream)
    assert "d0" not in other.items
    assert "d0" in mine.items, "the other tenant's delete of an equal id is not ours"
    anticipator = world.anticipator
    with pytest.raises(StreamNotFound):
        anticipator.renew_lease("u", "one", 0)
    with pytest.raises(StreamNotFound):
        world.open_session("u", "one", "new", DANA)
    with pytest.raises(SessionNotFound):
        anticipator.observe("u", "mine", 1, HELLO, partial=False)
    with pytest.raises(AlreadyExists):
        world.open_session("u", "two", "mine", DANA)
    with pytest.raises(AlreadyExists):
        anticipator.open_stream("u", "one", CARD)
    anticipator.close_session("u", "mine")
    assert anticipator.observe("t", "mine", 1, HELLO, partial=False)


@scenario
async def test_a_delete_reaches_the_sessions_that_hold_it_and_no_other(world: World) -> None:
    streams = {}
    for name, rung in (("dana", DANA), ("eve", EVE), ("acme", ACME)):
        streams[name] = connect(world, name, session=name, rung=rung)
        renew(world, *streams[name])
    waiting = asyncio.create_task(world.write("t", removed=["d1"]).wait())
    await settle()
    assert not waiting.done()
    assert not any(isinstance(e.body, Invalidation) for e in streams["eve"][0]._queue)
    assert not any(isinstance(e.body, Invalidation) for e in streams["acme"][0]._queue)
    streams["dana"][1].drain(streams["dana"][0])
    await waiting
    assert time() == 0.0
    assert "d1" not in streams["dana"][1].items
    assert streams["dana"][1].rungs["user"].memories == 3


@scenario
async def test_the_invalidation_comes_before_the_push_that_claims_its_version(world: World) -> None:
    stream, client = connect(world, "one")
    world.write("t", [world.memory("new", DANA, "pune 1, corrected")], removed=["d1"])
    kinds = [type(event.body).__name__ for event in stream._queue]
    assert kinds == ["Invalidation", "Push"]
    client.drain(stream)
    assert "d1" not in client.items and "new" in client.items and client.version == 4


@scenario
async def test_what_has_other_weights_goes_and_comes_again_and_the_delete_waits_for_it(world: World) -> None:
    """The weights of the one behind a deleted turn hold its words."""
    holder, client = connect(world, "one")
    latecomer, other = connect(world, "two", session="other", rung=EVE)
    renew(world, holder, client)
    follower = replace(world.current("t")["d2"], impacts={"lamp": 1.0})
    waiting = asyncio.create_task(world.write("t", [follower], removed=["d1", "d2"]).wait())
    await settle()
    bodies = [event.body for event in holder._queue]
    assert [(body.memory_ids, body.cause) for body in bodies if isinstance(body, Invalidation)] == [
        (["d1"], ChangeCause.DELETED),
        (["d2"], ChangeCause.SUPERSEDED),
    ]
    for _ in range(2):
        assert not waiting.done()
        client.apply(holder._queue.popleft())
        world.anticipator.acknowledge("t", "one", client.applied)
        await settle()
    assert waiting.done() and time() == 0.0
    client.drain(holder)
    assert client.items["d2"].indexed.impacts == {"lamp": 1.0} and client.rungs["user"].memories == 3
    other.drain(latecomer)
    assert "d2" not in other.items


@scenario
async def test_a_client_that_does_not_confirm_loses_its_lease_and_the_delete_goes_on(world: World) -> None:
    stream, client = connect(world, "one")
    assert renew(world, stream, client) == 10.0
    await asyncio.sleep(2)
    waiting = asyncio.create_task(world.write("t", removed=["d1"]).wait())
    await asyncio.sleep(0.9)
    assert renew(world, stream, client) == 10.0, "within a heartbeat's patience"
    await asyncio.sleep(0.2)
    assert renew(world, stream, client) == 0.0
    await waiting
    assert time() == pytest.approx(12.9)
    assert renew(world, stream, client) == 0.0, "it was given up on: first it must apply"
    client.drain(stream)
    assert renew(world, stream, client) == 10.0


@scenario
async def test_who_left_delays_a_delete_until_the_lease_ran_out_and_no_longer(world: World) -> None:
    stream, client = connect(world, "one")
    renew(world, stream, client)
    await asyncio.sleep(3)
    world.anticipator.close_stream(stream, "gone")
    assert world.anticipator.longest_lease == pytest.approx(7.0)
    await world.write("t", removed=["e0"]).wait()
    assert time() == 3.0, "it held nothing of this"
    await world.write("t", removed=["d0"]).wait()
    assert time() == pytest.approx(10.0)
    await world.write("t", removed=["d1"]).wait()
    assert time() == pytest.approx(10.0)
    assert world.anticipator.longest_lease == 0.0


@scenario
async def test_who_closed_the_session_delays_nothing(world: World) -> None:
    stream, client = connect(world, "one")
    renew(world, stream, client)
    world.anticipator.close_session("t", "s")
    await world.write("t", removed=["d0"]).wait()
    assert time() == 0.0
    with pytest.raises(SessionNotFound):
        world.anticipator.observe("t", "s", 1, HELLO, partial=False)


@scenario
async def test_a_reconnected_session_answers_for_what_its_earlier_connection_holds(world: World) -> None:
    """Between the new stream's opening and its reset being applied the old items may still be served."""
    stream, client = connect(world, "one")
    renew(world, stream, client)
    await asyncio.sleep(4)
    await world.write("t", [world.memory("late", DANA, "pune late")]).wait()
    client.drain(stream)
    world.anticipator.close_stream(stream, "gone")
    again = world.open_stream("t", "two")
    session = world.open_session("t", "two", "s", DANA)
    assert again.lease.remaining == pytest.approx(6.0), "no renewal yet, but the old lease runs"
    session.held.remove("late")  # as if the new connection had not been sent it
    waiting = asyncio.create_task(world.write("t", removed=["late"]).wait())
    await settle()
    assert not waiting.done()
    fresh = StreamClient("s")
    fresh.drain(again)
    await waiting
    assert time() == 4.0
    assert not session.may_hold("late")


@scenario
async def test_after_the_reset_nothing_lingers(world: World) -> None:
    stream, client = connect(world, "one")
    renew(world, stream, client)
    world.anticipator.close_stream(stream, "gone")
    again = world.open_stream("t", "two")
    session = world.open_session("t", "two", "s", EVE)
    assert session.may_hold("d0")
    StreamClient("s").drain(again)
    assert not session.may_hold("d0") and session.may_hold("e0")
    assert session.held_ids() == {f"{who}{n}" for who in "ea" for n in range(4)}


@scenario
async def test_a_session_opened_elsewhere_while_its_stream_lives_is_ended_there(world: World) -> None:
    """Two processes with one session id: the first serves on until it was told, or its lease ran out."""
    stream, client = connect(world, "one")
    renew(world, stream, client)
    other_stream, other = connect(world, "two")
    renew(world, other_stream, other)
    waiting = asyncio.create_task(world.write("t", removed=["d0"]).wait())
    await settle()
    other.drain(other_stream)
    await settle()
    assert not waiting.done(), "the first process may still serve d0"
    client.drain(stream)
    await waiting
    assert client.ended and not client.items and time() == 0.0
    second = world.write("t", removed=["d1"])
    other.drain(other_stream)
    await second.wait()
    assert time() == 0.0, "the first process was told to drop the session, and has"


@scenario
async def test_an_evicted_item_counts_as_held_until_its_eviction_was_applied(world: World) -> None:
    world.write("t", [world.memory(f"x{n}", ACME, f"bridge {n}") for n in range(60)])
    settings = AnticipationSettings(complete_below=10, items_per_query=8, coverages_kept=1, max_items=10)
    world.anticipator.settings = settings
    world.anticipator._prediction._predictors[0]._items = 6  # type: ignore[attr-defined]
    stream, client = connect(world, "one")
    renew(world, stream, client)
    for sequence, text in enumerate(("bridge 1", "train 2"), start=1):
        world.anticipator.observe("t", "s", sequence, Turn(TurnRole.USER, text), partial=True)
        await asyncio.gather(*world.anticipator._prediction._tasks)
        if sequence == 1:
            client.drain(stream)
    evicted = [i for event in stream._queue for i in getattr(event.body, "evicted_ids", ())]
    assert evicted and set(evicted) <= set(client.items)
    waiting = asyncio.create_task(world.write("t", removed=[evicted[0]]).wait())
    await settle()
    assert not waiting.done(), "the client has not read its eviction yet"
    client.drain(stream)
    await waiting
    assert evicted[0] not in client.items
    await world.write("t", removed=[evicted[1]]).wait()


@scenario
async def test_an_observation_is_taken_once(world: World) -> None:
    connect(world, "one")
    observe = world.anticipator.observe
    assert observe("t", "s", 1, HELLO, partial=True)
    assert not observe("t", "s", 1, HELLO, partial=True)
    assert observe("t", "s", 3, HELLO, partial=False)
    assert not observe("t", "s", 2, HELLO, partial=False)


@scenario
async def test_a_stream_carries_a_bounded_number_of_sessions(world: World) -> None:
    world.anticipator.settings = AnticipationSettings(sessions_per_stream=2)
    world.open_stream("t", "one")
    world.open_session("t", "one", "s1", DANA)
    world.open_session("t", "one", "s2", DANA)
    with pytest.raises(Overloaded):
        world.open_session("t", "one", "s3", DANA)


@scenario
async def test_dropping_a_tenant_waits_for_its_caches_and_leaves_the_others(world: World) -> None:
    stream, client = connect(world, "one")
    renew(world, stream, client)
    gone_stream, gone = connect(world, "two", session="gone")
    await asyncio.sleep(1)
    client.drain(stream)
    renew(world, gone_stream, gone)
    world.anticipator.close_stream(gone_stream, "gone")
    world.write("u", [world.memory("m", DANA, "tea")])
    other_stream, other = connect(world, "three", session="other", tenant="u")
    dropping = asyncio.create_task(world.anticipator.drop_tenant("t"))
    await settle()
    client.drain(stream)
    assert client.ended and not client.items
    await dropping
    assert time() == pytest.approx(11.0), "who left may serve until the lease ran out"
    assert not stream.open
    assert other_stream.open and other.items
    assert world.anticipator.observe("u", "other", 1, HELLO, partial=False)


@scenario
async def test_draining_tells_every_client_and_ends_the_streams(world: World) -> None:
    stream, client = connect(world, "one")
    renew(world, stream, client)
    await world.anticipator.drain(grace_seconds=2.0)
    event = await stream.next(lambda: world.anticipator.heartbeat("t"), 1.0)
    assert event is not None and event.body == Draining(2.0)
    assert await stream.next(lambda: world.anticipator.heartbeat("t"), 1.0) is None
    assert renew(world, stream, client) == 0.0, "what was promised to the next process must not grow"
    assert world.anticipator.longest_lease == 10.0


@scenario
async def test_the_end_of_a_session_ends_its_guesses(world: World) -> None:
    """A prediction that is still under way when its session closes changes nothing and sends nothing."""
    world.write("t", [world.memory(f"x{n}", ACME, f"bridge {n}") for n in range(60)])
    world.anticipator.settings = AnticipationSettings(complete_below=10)
    stream, _ = connect(world, "one")
    world.anticipator.observe("t", "s", 1, HELLO, partial=False)
    world.anticipator.close_session("t", "s")
    sent = stream.sent
    await asyncio.gather(*world.anticipator._prediction._tasks)
    assert stream.sent == sent


@scenario
async def test_a_guess_that_ends_after_the_connection_does_not_forget_what_the_client_holds(
    world: World,
) -> None:
    """Its answer would evict; the client, being gone, will not hear of that and serves on under its lease."""
    world.write("t", [world.memory(f"x{n}", ACME, f"bridge {n}") for n in range(60)])
    world.anticipator.settings = AnticipationSettings(complete_below=10, coverages_kept=1, max_items=12)
    world.anticipator._prediction._predictors[0]._items = 6  # type: ignore[attr-defined]
    stream, client = connect(world, "one")
    renew(world, stream, client)
    observe = world.anticipator.observe
    observe("t", "s", 1, Turn(TurnRole.USER, "bridge 1"), partial=True)
    await asyncio.gather(*world.anticipator._prediction._tasks)
    client.drain(stream)
    (held, *_) = [memory_id for memory_id in client.items if memory_id.startswith("x")]

    async def slowly(tenant_id: str, text: str) -> NDArray[np.float32]:
        await asyncio.sleep(0.5)
        return embed_words(text)

    world.anticipator._prediction._predictors[0]._embed = slowly  # type: ignore[attr-defined]
    observe("t", "s", 2, Turn(TurnRole.USER, "train 2"), partial=True)
    await asyncio.sleep(0.1)
    world.anticipator.close_stream(stream, "gone")
    await asyncio.gather(*world.anticipator._prediction._tasks)
    await world.write("t", removed=[held]).wait()
    assert time() == pytest.approx(10.0)


def test_settings_that_cannot_hold_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="heartbeats"):
        AnticipationSettings(heartbeat_seconds=4.0, lease_seconds=10.0)
    with pytest.raises(ConfigurationError, match="max_items"):
        AnticipationSettings(complete_below=10, max_items=5)


@scenario
async def test_a_session_ended_event_names_its_session_alone(world: World) -> None:
    stream, first = connect(world, "one", session="s1")
    world.open_session("t", "one", "s2", DANA)
    second = StreamClient("s2", applied=first.applied)
    stream.send(SessionEnded("s1", "test"))
    while stream._queue:
        event = stream._queue.popleft()
        first.apply(event)
        second.apply(event)
    assert first.ended and not first.items
    assert second.items and not second.ended
