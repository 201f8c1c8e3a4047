"""A session that comes back on another stream: what it holds still is not sent again, what is wrong goes."""

import asyncio
from dataclasses import replace

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.events import Push, PushedMemory
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stamp import stamp_of
from precall.engine.anticipation.stream import Stream
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.keyword import document_impacts
from tests.fakes.clock import LoopClock
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.scenario import scenario_in
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import World

SETTINGS = AnticipationSettings(complete_below=8, max_items=12, push_part_items=3, items_per_query=4)


def world_of_two() -> World:
    world = World(LoopClock(), SETTINGS)
    world.write("t", [world.memory(f"d{n}", DANA, f"pune {n}") for n in range(4)])
    world.write("t", [world.memory(f"e{n}", EVE, f"tea {n}") for n in range(2)])
    return world


scenario = scenario_in(world_of_two)


async def opened(world: World, rung: Rung = DANA) -> StreamClient:
    """A client whose connection has just been lost."""
    stream = world.open_stream("t", "one")
    world.open_session("t", "one", "s", rung)
    client = StreamClient("s")
    client.drain(stream)
    world.anticipator.renew_lease("t", "one", client.applied)
    world.anticipator.close_stream(stream, "lost")
    return client


def resume(world: World, client: StreamClient, rung: Rung = DANA) -> tuple[Stream, Push]:
    """Back on another stream; the first part of what was sent there, all of it applied."""
    stream = world.open_stream("t", "two")
    client.applied = 0
    client.pushes.clear()
    world.open_session("t", "two", "s", rung, named=client.stamps())
    client.drain(stream)
    return stream, client.pushes[0]


def weighed_anew(indexed: IndexedMemory) -> IndexedMemory:
    return replace(indexed, impacts=document_impacts(["pune", "again"]))


@scenario
async def test_what_is_held_and_true_is_not_sent_again(world: World) -> None:
    client = await opened(world)
    _, push = resume(world, client)
    assert push.resumed and not push.reset and push.last
    assert not push.items and not push.evicted_ids
    assert set(client.items) == {"d0", "d1", "d2", "d3"}
    assert client.rungs["user"].complete and client.version == 2


@scenario
async def test_only_what_changed_meanwhile_travels(world: World) -> None:
    client = await opened(world)
    again = weighed_anew(world.current("t")["d1"])
    world.write("t", removed=["d0"])
    world.write("t", [world.memory("d9", DANA, "a train")])
    world.write("t", [again], removed=["d1"])
    _, push = resume(world, client)
    assert push.evicted_ids == ["d0", "d1"]
    assert {item.indexed.memory.id for item in push.items} == {"d1", "d9"}
    assert set(client.items) == {"d1", "d2", "d3", "d9"}
    assert client.items["d1"].indexed.impacts == again.impacts
    assert client.rungs["user"].complete and client.version == 5


@scenario
async def test_a_server_that_knows_nothing_of_the_session_answers_alike(world: World) -> None:
    """After a restart: the stamps say what is true, whoever sent it."""
    client = await opened(world)
    stranger = StreamClient("s")
    stranger.items = dict(client.items)
    stream = world.open_stream("t", "two")
    world.open_session("t", "two", "other", DANA, named=stranger.stamps())
    stranger.session_id = "other"
    stranger.drain(stream)
    assert not stranger.pushes[0].items and set(stranger.items) == {"d0", "d1", "d2", "d3"}


@scenario
async def test_a_stamp_tells_words_weights_and_vectors_apart(world: World) -> None:
    one = world.memory("x", DANA, "pune")
    others = [
        replace(one, memory=replace(one.memory, text="pune.")),
        replace(one, memory=replace(one.memory, importance=0.9)),
        weighed_anew(one),
        replace(one, vector=-one.vector),
    ]
    assert stamp_of(one) == stamp_of(replace(one))
    assert len({stamp_of(each) for each in (one, *others)}) == 5


@scenario
async def test_what_the_session_does_not_see_any_more_goes(world: World) -> None:
    """Opened again for another user, with the ids of the first: not one of them may stay."""
    client = await opened(world)
    _, push = resume(world, client, EVE)
    assert push.evicted_ids == ["d0", "d1", "d2", "d3"]
    assert set(client.items) == {"e0", "e1"}


@scenario
async def test_a_name_that_was_never_sent_brings_nothing(world: World) -> None:
    client = await opened(world)
    stream = world.open_stream("t", "two")
    named = {"e0": stamp_of(world.current("t")["e0"]), "nobody": 1, "d0": 0}
    session = world.open_session("t", "two", "s", DANA, named=named)
    assert not session.may_hold("nobody") or session.stream.applied == 0
    client.applied = 0
    client.drain(stream)
    assert set(client.items) == {"d0", "d1", "d2", "d3"}, "e0 is another user's, d0 is sent anew"
    assert not session.may_hold("nobody") and not session.may_hold("e0")


@scenario
async def test_a_delete_after_the_opening_waits_for_what_is_held_still(world: World) -> None:
    client = await opened(world)
    stream = world.open_stream("t", "two")
    world.open_session("t", "two", "s", DANA, named=client.stamps())
    waiting = asyncio.create_task(world.write("t", removed=["d2"]).wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    client.applied = 0
    client.drain(stream)
    await waiting
    assert asyncio.get_running_loop().time() == 0.0
    assert "d2" not in client.items


@scenario
async def test_of_a_rung_that_is_not_whole_what_is_held_stays_within_the_budget(world: World) -> None:
    world.write("t", [world.memory(f"a{n}", ACME, f"train {n}") for n in range(20)])
    client = await opened(world)
    stream = world.open_stream("t", "two")
    session = world.open_session("t", "two", "s", DANA, named=None)
    ids = [f"a{n}" for n in range(20)]
    named = client.stamps() | {i: stamp_of(world.current("t")[i]) for i in ids}
    third = world.open_stream("t", "three")
    session = world.open_session("t", "three", "s", DANA, named=named)
    kept = [i for i in ids if i in session.held]
    assert len(session.held) == SETTINGS.max_items and len(kept) == SETTINGS.max_items - 4
    first = next(e.body for e in third._queue if isinstance(e.body, Push))
    assert set(first.evicted_ids) == set(ids) - set(kept)
    assert stream.open


@scenario
async def test_what_was_said_before_goes_on(world: World) -> None:
    stream = world.open_stream("t", "one")
    world.open_session("t", "one", "s", DANA, conversation_id="c")
    said = Turn(TurnRole.USER, "about the train to pune")
    assert world.anticipator.observe("t", "s", 7, said, partial=False)
    world.anticipator.renew_lease("t", "one", 0)
    world.anticipator.close_stream(stream, "lost")
    world.open_stream("t", "two")
    session = world.open_session("t", "two", "s", DANA, conversation_id="c")
    assert session.conversation.latest == said
    assert not world.anticipator.observe("t", "s", 7, said, partial=False), "it was taken before"
    world.open_stream("t", "three")
    elsewhere = world.open_session("t", "three", "s", EVE, conversation_id="c")
    assert elsewhere.conversation.latest is None, "another user's session hears nothing of it"
    other = world.open_session("t", "three", "s", EVE, conversation_id="d")
    assert other.conversation.latest is None


@scenario
async def test_another_write_of_the_same_words_under_the_same_id_has_another_stamp(world: World) -> None:
    """Its source and its metadata, which the stamp does not look at, may be others."""
    one = world.memory("x", DANA, "pune")
    again = replace(one, memory=replace(one.memory, created_version=2, metadata={"from": "elsewhere"}))
    assert stamp_of(one) != stamp_of(again)


@scenario
async def test_the_latest_of_what_was_said_goes_on_whichever_connection_is_asked_last(world: World) -> None:
    first = world.open_stream("t", "one")
    world.open_session("t", "one", "s", DANA, conversation_id="c")
    world.anticipator.observe("t", "s", 1, Turn(TurnRole.USER, "early"), partial=False)
    world.anticipator.renew_lease("t", "one", 0)
    world.open_stream("t", "two")
    world.open_session("t", "two", "s", DANA, conversation_id="c")  # ends it on the first, which stays
    late = Turn(TurnRole.USER, "late")
    world.anticipator.observe("t", "s", 2, late, partial=False)
    world.anticipator.close_stream(first, "lost")
    world.open_stream("t", "three")
    session = world.open_session("t", "three", "s", DANA, conversation_id="c")
    assert session.conversation.latest == late and session.sequence == 2


@scenario
async def test_an_opening_that_arrives_after_a_later_one_changes_nothing(world: World) -> None:
    """What it names, a client has since let go: it would be counted on, and is not held."""
    world.write("t", [world.memory(f"a{n}", ACME, f"train {n}") for n in range(20)])
    world.open_stream("t", "one")
    later = world.open_session("t", "one", "s", DANA, attempt=2)
    early = {"a3": stamp_of(world.current("t")["a3"])}
    assert world.open_session("t", "one", "s", DANA, attempt=1, named=early) is later
    assert not later.may_hold("a3") and world.anticipator.is_live(later)
    world.open_stream("t", "two")
    elsewhere = world.open_session("t", "two", "s", DANA, attempt=1, named=early)
    assert elsewhere is not later, "on another stream it is another client's word"
    assert world.open_session("t", "two", "s", DANA, attempt=1, named=early) is elsewhere, "a repeat"
    again = world.open_session("t", "two", "s", DANA)
    assert again is not elsewhere, "clients that count nothing are taken at their word"


@scenario
async def test_of_kept_memories_of_a_large_rung_the_terms_are_counted_anew(world: World) -> None:
    """A term that was rare before the connection broke may be common by now."""
    world.write("t", [world.memory(f"a{n}", ACME, f"train {n}") for n in range(20)])
    client = StreamClient("s")
    client.items["a3"] = PushedMemory(world.current("t")["a3"], "customer", "test")
    world.write("t", [world.memory(f"b{n}", ACME, "train") for n in range(20)])
    stream = world.open_stream("t", "two")
    world.open_session("t", "two", "s", DANA, named=client.stamps())
    client.drain(stream)
    assert set(client.items) >= {"a3"}
    assert client.frequencies["customer"]["train"] == 40


@scenario
async def test_a_write_between_the_reading_and_the_opening_is_not_missed(world: World) -> None:
    client = await opened(world)
    named = client.stamps()
    readings = world.anticipator.readings(named)
    await readings.prepare(world.lineage("t", DANA))
    world.write("t", [weighed_anew(world.current("t")["d1"])], removed=["d1"])
    world.write("t", [world.memory("d9", DANA, "a train")], removed=["d0"])
    stream = world.open_stream("t", "two")
    world.open_session("t", "two", "s", DANA, named=named, readings=readings)
    client.applied = 0
    client.drain(stream)
    assert set(client.items) == {"d1", "d2", "d3", "d9"}
    assert client.items["d1"].indexed.impacts == world.current("t")["d1"].impacts
    assert client.rungs["user"].complete


@scenario
async def test_pushes_of_two_openings_are_never_taken_for_each_other(world: World) -> None:
    stream = world.open_stream("t", "one")
    first = world.open_session("t", "one", "s", DANA)
    again = world.open_session("t", "one", "s", DANA)
    ids = [e.body.push_id for e in stream._queue if isinstance(e.body, Push)]
    assert again is not first and len(set(ids)) == 2
