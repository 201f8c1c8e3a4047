"""What a session is told of rungs that it does not hold whole."""

from collections.abc import Sequence

from precall.engine.anticipation.rung_claims import RungClaims
from precall.engine.anticipation.settings import AnticipationSettings
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import LADDER, World

SETTINGS = AnticipationSettings(complete_below=3, max_items=12, items_per_query=4)


def world_of(texts: Sequence[str]) -> World:
    world = World(FakeClock(), SETTINGS)
    world.write("t", [world.memory(f"a{n}", ACME, text) for n, text in enumerate(texts)])
    return world


def test_of_a_term_that_a_rung_has_not_it_is_said_that_it_has_it_not() -> None:
    world = world_of(["train", "train", "tea", "rent"])
    world.write("t", [world.memory("d", DANA, "pune")])
    narrow, top = RungClaims(world.lineage("t", DANA), LADDER).stated({"train", "pune"})
    assert narrow.statistics is not None and top.statistics is not None
    assert narrow.statistics.frequencies == {"train": 0, "pune": 1}
    assert top.statistics.frequencies == {"train": 2, "pune": 0}


def test_the_last_memory_of_a_term_takes_the_count_of_it_along() -> None:
    """A count that outlived its memories would weigh the term, and with it every answer, wrongly."""
    world = world_of(["train", "tea", "rent", "visa", "piano"])
    stream = world.open_stream("t", "one")
    world.open_session("t", "one", "s", DANA)
    client = StreamClient("s")
    world.write("t", [world.memory("late", ACME, "garden")])
    client.drain(stream)
    assert client.frequencies["customer"]["garden"] == 1
    world.write("t", removed=["late"])
    client.drain(stream)
    assert client.frequencies["customer"]["garden"] == 0
    claim = client.rungs["customer"]
    assert not claim.complete and claim.statistics is not None and claim.statistics.documents == 5
