"""What stands next to the memories that just mattered, and nothing that the session may not see."""

from dataclasses import replace

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.neighbours import Neighbours
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, MemoryKind, Source
from tests.anticipation.situations import situation, the_only
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE, NOW, moment
from tests.fakes.world import World


def turn(world: World, number: int, *, rung: Rung = DANA, prefix: str = "t") -> IndexedMemory:
    return world.memory(
        f"{prefix}{number}",
        rung,
        f"word{number} word{number}",
        kind=MemoryKind.EPISODE,
        source=Source(conversation_id="call"),
    )


def talk(world: World, count: int) -> None:
    """Turns of one conversation on Dana's rung, and on Eve's of the same name; a minute apart."""
    for number in range(count):
        world.clock.advance(60)  # type: ignore[attr-defined]
        world.write("t", [turn(world, number), turn(world, number, rung=EVE, prefix="eve")])


async def test_what_was_said_around_a_used_memory_comes_nearest_first_and_after_before_before() -> None:
    world = World(FakeClock())
    talk(world, 8)
    predictor = Neighbours(world.clock, items=9)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.USED, answers=[["t3"]])))
    around = [each for each in proposal.memory_ids if each in {"t1", "t2", "t4", "t5"}]
    assert proposal.memory_ids[0] == "t3", "the server may have served it: it need not be held"
    assert around == ["t4", "t2", "t5", "t1"]
    assert proposal.query is None
    at_the_end = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["t7"])))
    assert list(at_the_end.memory_ids) == ["t7", "t6", "t5", "t4", "t3"]


async def test_a_turn_written_late_stands_where_it_was_said() -> None:
    world = World(FakeClock())
    talk(world, 3)
    said = turn(world, 9)
    world.write("t", [replace(said, memory=replace(said.memory, event_time=moment(NOW + 90)))])
    predictor = Neighbours(world.clock, items=9)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["t0"])))
    assert list(proposal.memory_ids) == ["t0", "t9", "t1", "t2"]


async def test_nothing_of_another_users_rung_is_proposed_or_looked_at() -> None:
    world = World(FakeClock())
    talk(world, 4)
    predictor = Neighbours(world.clock, items=50)
    assert not await predictor.propose(situation(world, cue=Cue.USED, answers=[["eve1", "unknown"]]))
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.USED, answers=[["eve1", "t1"]])))
    assert not [each for each in proposal.memory_ids if each.startswith("eve")]


async def test_keys_of_one_family_and_of_the_rung_above_are_near() -> None:
    world = World(FakeClock())
    keys = {"a": "trip.pune.date", "b": "trip.pune.hotel", "c": "trip.goa.date", "d": "trip", "e": ""}
    world.write("t", [world.memory(each, DANA, each * 5, key=key) for each, key in keys.items()])
    world.write("t", [world.memory("above", ACME, "above", key="trip.pune.date")])
    predictor = Neighbours(world.clock, items=9)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["a"])))
    assert list(proposal.memory_ids) == ["a", "b", "above"]
    alone = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["d"])))
    assert list(alone.memory_ids) == ["d"], "a key of one word has no family"


async def test_what_a_memory_was_derived_from_is_near() -> None:
    world = World(FakeClock())
    world.write("t", [world.memory("root", DANA, "root"), world.memory("other", DANA, "other")])
    world.write("t", [world.memory("fact", DANA, "fact", source=Source(memory_ids=("root",)))])
    predictor = Neighbours(world.clock, items=9)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["fact"])))
    assert list(proposal.memory_ids) == ["fact", "root"]


async def test_the_nearest_by_vector_are_searched_for_around_what_was_used_alone() -> None:
    world = World(FakeClock())
    texts = ["pune train", "pune train late", "garden piano", "visa exam"]
    world.write("t", [world.memory(f"m{n}", DANA, text) for n, text in enumerate(texts)])
    predictor = Neighbours(world.clock, items=2)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.USED, answers=[["m0"]])))
    assert list(proposal.memory_ids) == ["m0", "m1"]
    found = the_only(await predictor.propose(situation(world, cue=Cue.FOUND, found=["m0"])))
    assert list(found.memory_ids) == ["m0"]


async def test_of_a_set_of_seeds_each_has_its_turn_within_the_limit() -> None:
    world = World(FakeClock())
    talk(world, 9)
    proposal = the_only(
        await Neighbours(world.clock, items=4).propose(situation(world, cue=Cue.FOUND, found=["t2", "t6"]))
    )
    assert list(proposal.memory_ids) == ["t2", "t6", "t3", "t7"]


async def test_while_somebody_speaks_what_was_found_is_no_occasion() -> None:
    world = World(FakeClock())
    talk(world, 4)
    shown = situation(world, cue=Cue.FOUND, found=["t1"], answers=[["t1"]])
    shown.conversation.observe(Turn(TurnRole.USER, "and the"), partial=True)
    predictor = Neighbours(world.clock, items=9)
    assert not await predictor.propose(shown)
    assert await predictor.propose(replace(shown, cue=Cue.FOUND | Cue.USED))
