"""What a session pushes: whole rungs, answers, writes; and what it lets the client believe."""

import asyncio

import numpy as np
import pytest

from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.index.features import features_of
from precall.engine.memory.ladder import Rung
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.fusion import Fusion
from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import RankingWeights, rank
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE, sentence
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import World, embed_words

SMALL = AnticipationSettings(
    complete_below=5, items_per_query=4, push_part_items=3, coverages_kept=2, max_items=24
)


@pytest.fixture
def world() -> World:
    return World(FakeClock(), SMALL)


def fill(world: World, rung: Rung, count: int, *, prefix: str, tenant: str = "t") -> None:
    generator = np.random.default_rng(len(prefix) * 100 + count)
    world.write(tenant, [world.memory(f"{prefix}{n}", rung, sentence(generator)) for n in range(count)])


class Connected:
    """A client on a stream of its own."""

    def __init__(
        self, world: World, *, rung: Rung = DANA, tenant: str = "t", session: str = "s", **limits: int
    ):
        self.world, self.tenant = world, tenant
        self.stream: Stream = world.open_stream(tenant, f"stream of {session} {world.clock.monotonic()}")
        self.session = world.open_session(tenant, self.stream.id, session, rung, **limits)
        self.client = StreamClient(session)
        self.client.drain(self.stream)

    async def say(self, text: str, sequence: int, *, partial: bool = False) -> None:
        turn = Turn(TurnRole.USER, text)
        self.world.anticipator.observe(self.tenant, self.session.id, sequence, turn, partial=partial)
        await asyncio.gather(*self.world.anticipator._prediction._tasks)
        self.client.drain(self.stream)


def test_small_rungs_are_pushed_whole_and_claimed_with_the_last_part_alone(world: World) -> None:
    fill(world, DANA, 5, prefix="d")
    fill(world, ACME, 3, prefix="a")
    client = Connected(world).client
    assert [(push.reset, push.last, len(push.items)) for push in client.pushes] == [
        (True, False, 3),
        (False, False, 3),
        (False, True, 2),
    ]
    assert {push.push_id for push in client.pushes} == {1}
    assert [item.indexed.memory.id for push in client.pushes for item in push.items][:5] == [
        f"d{n}" for n in range(5)
    ], "the narrowest rung first"
    assert {
        level: (claim.complete, claim.memories, claim.statistics) for level, claim in client.rungs.items()
    } == {
        "user": (True, 5, None),
        "customer": (True, 3, None),
    }
    assert client.version == 2


def test_an_empty_lineage_is_complete_and_says_so(world: World) -> None:
    connected = Connected(world)
    (push,) = connected.client.pushes
    assert push.reset and push.last and not push.items
    assert all(claim.complete for claim in connected.client.rungs.values())
    assert connected.session.claims.wholly_complete


def test_a_large_rung_is_not_pushed_and_its_statistics_cover_the_terms_of_what_was(world: World) -> None:
    """A term's weight is that of all visible rungs: the client needs the large rung's counts for it."""
    fill(world, DANA, 4, prefix="d")
    fill(world, ACME, 30, prefix="a")
    connected = Connected(world)
    claim = connected.client.rungs["customer"]
    assert not claim.complete and claim.memories == 30 and claim.statistics is not None
    assert connected.client.rungs["user"].statistics is None
    assert_counts_like_the_server(connected)


def assert_counts_like_the_server(connected: Connected) -> None:
    """For the terms of what it holds, the client's counts are the server's."""
    world, client = connected.world, connected.client
    terms = {term for item in client.items.values() for term in item.indexed.impacts}
    visible = [
        each
        for each in world.current(connected.tenant).values()
        if each.memory.rung.is_visible_from(connected.session.rung)
    ]
    statistics = client.statistics(terms)
    assert statistics.documents == len(visible)
    for term in terms:
        assert statistics.frequencies[term] == sum(term in each.impacts for each in visible), term


async def test_the_clients_counts_follow_answers_writes_supersedes_and_deletes(world: World) -> None:
    fill(world, DANA, 3, prefix="d")
    fill(world, ACME, 30, prefix="a")
    connected = Connected(world)
    await connected.say("pune train", 1)
    assert_counts_like_the_server(connected)
    world.write("t", [world.memory("w1", ACME, "pune tea kettle")])
    connected.client.drain(connected.stream)
    assert_counts_like_the_server(connected)
    world.write("t", [world.memory("w2", ACME, "pune saucer")], removed=["w1"])
    connected.client.drain(connected.stream)
    assert_counts_like_the_server(connected)
    world.write("t", removed=["a0", "a1", "a2", "d0"])
    connected.client.drain(connected.stream)
    assert_counts_like_the_server(connected)


async def test_an_answer_pushes_what_is_missing_with_its_claim(world: World) -> None:
    fill(world, ACME, 30, prefix="a")
    connected = Connected(world)
    await connected.say("pune train", 1, partial=True)
    (coverage,) = connected.client.coverages.values()
    assert len(connected.client.items) == 4
    assert coverage.terms == {"pune", "train"}
    assert {item.predictor for item in connected.client.items.values()} == {"recent_turns"}
    last = connected.client.pushes[-1]
    assert last.caused_by_sequence == 1 and last.caused_at == world.clock.wall()
    await connected.say("pune train", 2)
    assert not connected.client.pushes[-1].items, "nothing is sent twice"


async def test_the_budget_of_the_client_is_kept(world: World) -> None:
    fill(world, ACME, 40, prefix="a")
    connected = Connected(world, max_items=6)
    for sequence, text in enumerate(["pune", "train tea", "doctor garden", "rent visa", "dog"], start=1):
        await connected.say(text, sequence)
        assert len(connected.client.items) <= 6
        assert set(connected.client.items) == set(connected.session.held.ids)
        assert len(connected.client.coverages) <= 2


def test_a_write_on_a_visible_rung_is_held_at_once_and_another_is_not(world: World) -> None:
    fill(world, DANA, 2, prefix="d")
    connected = Connected(world)
    world.write("t", [world.memory("new", DANA, "tea"), world.memory("other", EVE, "tea")])
    connected.client.drain(connected.stream)
    assert set(connected.client.items) == {"d0", "d1", "new"}
    assert connected.client.rungs["user"].complete and connected.client.rungs["user"].memories == 3
    before = len(connected.client.pushes)
    world.write("t", [world.memory("other2", EVE, "tea")])
    connected.client.drain(connected.stream)
    assert len(connected.client.pushes) == before


async def test_a_write_takes_the_room_of_guesses(world: World) -> None:
    fill(world, DANA, 4, prefix="d")
    fill(world, ACME, 30, prefix="a")
    connected = Connected(world, max_items=8)
    await connected.say("pune", 1)
    guessed = connected.client.held("customer")
    assert len(guessed) == 4 and connected.client.coverages
    world.write("t", [world.memory("new", DANA, "tea")])
    connected.client.drain(connected.stream)
    assert "new" in connected.client.items and connected.client.rungs["user"].complete
    assert len(guessed - connected.client.held("customer")) == 1, "one went, and with it the claim"
    assert not connected.client.coverages


async def test_a_write_that_does_not_fit_costs_the_claims(world: World) -> None:
    fill(world, DANA, 4, prefix="d")
    fill(world, ACME, 30, prefix="a")
    connected = Connected(world, max_items=8)
    await connected.say("pune", 1)
    assert connected.client.coverages and connected.client.rungs["user"].complete
    world.write("t", [world.memory(f"new{n}", DANA, "tea") for n in range(5)])
    connected.client.drain(connected.stream)
    assert not connected.client.coverages and not connected.client.rungs["user"].complete
    assert "new0" not in connected.client.items
    await connected.say("pune", 2)
    assert connected.client.coverages, "the next answer is claimed again"


async def test_totals_in_the_client_are_the_servers(world: World) -> None:
    """The held items, weighted by what the client was told, have the totals that the server gives them."""
    fill(world, DANA, 4, prefix="d")
    fill(world, ACME, 30, prefix="a")
    connected = Connected(world)
    await connected.say("pune train doctor", 1)
    terms = ["pune", "train", "doctor"]
    partitions = world.lineage("t", DANA)
    vector, now = embed_words("pune train doctor"), world.clock.wall()
    hits = search_fast(partitions, Query(vector, terms, now, limit=99))
    server = {hit.memory.id: hit.score.total for hit in hits}
    mine = MemorySet(len(vector))
    for memory_id, item in connected.client.items.items():
        mine.add(memory_id, features_of(item.indexed))
    weights = connected.client.statistics(set(terms)).weights(terms)
    table = mine.candidates(vector, weights)
    for each in rank(table, RankingWeights().fused(Fusion.of(terms)), now=now, limit=99):
        assert each.total == pytest.approx(server[table.ids[each.row]], abs=1e-6)
