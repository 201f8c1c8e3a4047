"""Before anything was said: pinned, the last conversation's end, important, recent; nothing held whole."""

from precall.engine.anticipation.call_start import CallStart
from precall.engine.anticipation.cue import Cue
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MemoryKind, Source
from tests.anticipation.situations import situation, the_only
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE, NOW, moment
from tests.fakes.world import World


def filled() -> World:
    """A minute between each two: pinned ones, an old call, the last call, important ones."""
    world = World(FakeClock())

    def write(memory_id: str, rung: Rung = DANA, **fields: object) -> None:
        world.clock.advance(60)  # type: ignore[attr-defined]
        world.write("t", [world.memory(memory_id, rung, memory_id, **fields)])

    for number in range(2):
        write(f"pinned{number}", pinned=True)
    write("expired", pinned=True, expires_at=moment(NOW + 10))
    for call in ("old", "last"):
        for number in range(4):
            write(f"{call}{number}", kind=MemoryKind.EPISODE, source=Source(conversation_id=call))
    for number in range(4):
        write(f"important{number}", importance=0.6 + number / 10)
    write("eve", EVE, pinned=True)
    write("above", ACME, pinned=True)
    return world


async def test_each_group_is_there_and_in_order() -> None:
    world = filled()
    predictor = CallStart(world.clock, items_per_group=8)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.OPENED)))
    ids = list(proposal.memory_ids)
    assert ids[:2] == ["pinned1", "pinned0"]
    assert ids[2:6] == ["last3", "last2", "last1", "last0"]
    assert ids[6:10] == ["important3", "important2", "important1", "important0"]
    assert ids[-1] == "above"
    assert proposal.query is None and proposal.worth < 0.5


async def test_a_group_has_a_limit_and_the_expired_and_other_users_have_no_place() -> None:
    world = filled()
    world.write("t", [world.memory(f"more{n}", DANA, f"more{n}", importance=1.0) for n in range(9)])
    proposal = the_only(
        await CallStart(world.clock, items_per_group=2).propose(situation(world, cue=Cue.OPENED))
    )
    assert sum(each.startswith("pinned") for each in proposal.memory_ids) == 2
    assert sum(each.startswith("more") for each in proposal.memory_ids) == 2
    assert not {"expired", "eve"} & set(proposal.memory_ids)


async def test_what_is_held_whole_is_left_out() -> None:
    world = filled()
    predictor = CallStart(world.clock, items_per_group=8)
    proposal = the_only(await predictor.propose(situation(world, cue=Cue.OPENED, complete=frozenset({DANA}))))
    assert list(proposal.memory_ids) == ["above"]
    assert not await predictor.propose(situation(world, cue=Cue.OPENED, complete=frozenset({DANA, ACME})))


async def test_the_conversation_that_goes_on_is_not_the_last_one() -> None:
    world = filled()
    resumed = situation(world, cue=Cue.OPENED, conversation_id="last")
    proposal = the_only(await CallStart(world.clock, items_per_group=12).propose(resumed))
    assert list(proposal.memory_ids)[2:6] == ["old3", "old2", "old1", "old0"]


async def test_once_somebody_spoke_it_is_silent() -> None:
    world = filled()
    predictor = CallStart(world.clock, items_per_group=8)
    assert not await predictor.propose(situation(world, cue=Cue.OPENED, said=["pune"]))
