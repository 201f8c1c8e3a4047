"""A client that reads its stream slowly: what waits for it is bounded, deletes go out, and it comes round."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.events import Invalidation, Push
from precall.engine.anticipation.settings import AnticipationSettings
from tests.fakes.clock import LoopClock
from tests.fakes.memories import ACME, DANA
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import World, embed_at_once

Run = Callable[[Coroutine[Any, Any, Any]], Any]
SETTINGS = AnticipationSettings(
    complete_below=40, items_per_query=6, push_part_items=2, push_parts_waiting=4, max_items=200
)


def turn(text: str) -> Turn:
    return Turn(TurnRole.USER, text)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_writes_to_a_whole_rung_are_left_out_and_it_is_whole_again(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = World(LoopClock(), SETTINGS)
        stream = world.open_stream("t", "one")
        session = world.open_session("t", "one", "s", DANA)
        client = StreamClient("s")
        client.drain(stream)
        for n in range(20):
            world.write("t", [world.memory(f"d{n}", DANA, f"pune {n}")])
        items = [item for event in stream._queue if isinstance(event.body, Push) for item in event.body.items]
        assert len(items) == SETTINGS.push_parts_waiting, "one a write, till the client had to catch up"
        client.drain(stream)
        assert not client.rungs["user"].complete and client.version == 20
        assert len(client.items) == 4
        world.anticipator.observe("t", "s", 1, turn("pune"), partial=False)
        client.drain(stream)
        assert client.rungs["user"].complete and len(client.items) == 20
        assert not session.claims.incomplete
        world.anticipator.check_integrity()

    run_on_virtual_clock(scenario())


def test_nothing_is_predicted_till_the_client_keeps_up_and_then_of_the_newest(
    run_on_virtual_clock: Run,
) -> None:
    asked: list[str] = []

    async def scenario() -> None:
        async def embed(text: str) -> Any:
            asked.append(text)
            return await embed_at_once(text)

        world = World(LoopClock(), SETTINGS, embed=embed)
        for n in range(60):
            world.write("t", [world.memory(f"a{n}", ACME, f"train {n}")])
        stream = world.open_stream("t", "one")
        world.open_session("t", "one", "s", DANA)
        client = StreamClient("s")
        client.drain(stream)
        sequence = 0
        while stream.waiting("s") < SETTINGS.push_parts_waiting:
            sequence += 1
            world.anticipator.observe("t", "s", sequence, turn(f"train {sequence}"), partial=False)
            await settle()
            assert sequence < 20, "the predictions of a few turns fill what may wait"
        before = len(asked)
        for late in ("train ten", "train eleven", "train twelve"):
            sequence += 1
            world.anticipator.observe("t", "s", sequence, turn(late), partial=True)
            await settle()
        assert len(asked) == before, "the client has not taken what there is"
        while stream._queue:
            event = await stream.next(lambda: world.anticipator.heartbeat("t"), 1.0)
            assert event is not None
            client.apply(event)
        await settle()
        assert asked[before:] == ["train twelve"], (
            "what was said meanwhile but is no longer new is passed over"
        )
        client.drain(stream)
        world.anticipator.check_integrity()
        await world.anticipator._prediction.close()

    run_on_virtual_clock(scenario())


def test_an_invalidation_goes_out_whatever_waits(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = World(LoopClock(), SETTINGS)
        world.write("t", [world.memory(f"d{n}", DANA, f"pune {n}") for n in range(20)])
        stream = world.open_stream("t", "one")
        world.open_session("t", "one", "s", DANA)
        assert stream.waiting("s") >= SETTINGS.push_parts_waiting
        world.write("t", removed=["d3"])
        assert any(isinstance(e.body, Invalidation) and e.body.memory_ids == ["d3"] for e in stream._queue)
        client = StreamClient("s")
        client.drain(stream)
        assert "d3" not in client.items and client.rungs["user"].complete and client.version == 2

    run_on_virtual_clock(scenario())


def test_who_waits_for_room_is_let_go_when_the_stream_ends(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        world = World(LoopClock(), SETTINGS)
        world.write("t", [world.memory(f"d{n}", DANA, f"pune {n}") for n in range(20)])
        stream = world.open_stream("t", "one")
        session = world.open_session("t", "one", "s", DANA)
        waiting = asyncio.create_task(session.room())
        await settle()
        assert not waiting.done()
        world.anticipator.close_stream(stream, "gone")
        await waiting

    run_on_virtual_clock(scenario())
