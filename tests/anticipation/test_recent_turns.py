"""The floor of an answer is true: nothing visible that is not held has a total above it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Conversation, Turn, TurnRole
from precall.engine.anticipation.events import PushedCoverage
from precall.engine.anticipation.predictor import Situation
from precall.engine.anticipation.recent_turns import RecentTurns
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.errors import Overloaded
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.fusion import HALF_PER_TERM
from precall.scoring.keyword import inverse_document_frequency
from precall.scoring.vectors import unit
from tests.fakes.clock import FakeClock, LoopClock
from tests.fakes.memories import ACME, DANA, EVE, NOW, moment, sentence
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import WordModel, World, embed_at_once, embed_words

Run = Callable[[Coroutine[Any, Any, Any]], Any]
USER, ASSISTANT = TurnRole.USER, TurnRole.ASSISTANT


def totals(
    memories: list[IndexedMemory], coverage: PushedCoverage, weights: Mapping[str, float], now: float
) -> NDArray[np.float64]:
    """The formula of DESIGN.md for a coverage's query, in float64; ``weights``: term -> idf."""
    vectors = np.stack([each.vector for each in memories]).astype(np.float64)
    cosines = np.clip(vectors @ coverage.vector.astype(np.float64), 0, 1)
    bm25 = np.array(
        [sum(idf * each.impacts.get(term, 0.0) for term, idf in weights.items()) for each in memories]
    )
    share, half = coverage.keyword_share, HALF_PER_TERM * max(len(coverage.terms), 1)
    relevance = (1 - share) * cosines + share * bm25 / (bm25 + half)
    ages = np.array([max(0.0, now - each.memory.event_time.timestamp()) for each in memories])
    importances = np.array([each.memory.importance for each in memories])
    return 0.7 * relevance + 0.2 * importances + 0.1 * 0.5 ** (ages / (30 * 86_400))


def assert_floors_are_true(world: World, client: StreamClient, *, tolerance: float = 1e-5) -> int:
    """Brute force over what the session may see; returns how many unheld memories were compared.

    Keyword weights are those of the version that a claim was made at: later writes move them a little, which
    is what ``tolerance`` is for.
    """
    now, compared = world.clock.wall(), 0
    unheld = [
        each
        for memory_id, each in world.current("t").items()
        if each.memory.rung.is_visible_from(DANA)
        and memory_id not in client.items
        and each.memory.servable_until > now
    ]
    for coverage in client.coverages.values() if unheld else ():
        then = world.history["t"][coverage.version].values()
        counted = [each for each in then if each.memory.rung.is_visible_from(DANA)]
        weights = {
            term: inverse_document_frequency(len(counted), sum(term in each.impacts for each in counted))
            for term in coverage.terms
        }
        assert totals(unheld, coverage, weights, now).max() <= coverage.floor + tolerance
        compared += len(unheld)
    return compared


def fill(world: World, count: int, *, seed: int = 1) -> None:
    generator = np.random.default_rng(seed)
    made = [
        world.memory(
            f"m{n}",
            ACME if n % 3 else DANA,
            sentence(generator),
            importance=float(generator.choice([0.0, 0.3, 1.0])),
            valid_from=moment(NOW + 60) if n % 7 == 0 else None,
            expires_at=moment(NOW + 30) if n % 11 == 0 else None,
        )
        for n in range(count)
    ]
    world.write("t", made)


SETTINGS = AnticipationSettings(
    complete_below=3, items_per_query=8, coverages_kept=3, push_part_items=5, max_items=30
)


@pytest.mark.parametrize("exact_below", [20, 10**9])
@pytest.mark.parametrize("seed", range(2))
def test_floors_are_true_through_writes_evictions_and_supersedes(
    seed: int, exact_below: int, run_on_virtual_clock: Run
) -> None:
    """Writes land while texts are being embedded, and between the pushes."""

    async def scenario() -> None:
        generator = np.random.default_rng(seed)
        clock = LoopClock()

        async def slowly(text: str) -> NDArray[np.float32]:
            await asyncio.sleep(0.5)
            return embed_words(text)

        world = World(clock, SETTINGS, embed=slowly, exact_below=exact_below)
        fill(world, 120, seed=seed)
        stream = world.open_stream("t", "one")
        world.open_session("t", "one", "s", DANA)
        client = StreamClient("s")
        compared = serial = 0
        for sequence in range(1, 21):
            turn = Turn(USER if sequence % 2 else ASSISTANT, sentence(generator, 4))
            world.anticipator.observe("t", "s", sequence, turn, partial=bool(generator.integers(2)))
            for _ in range(int(generator.integers(0, 4))):
                await asyncio.sleep(float(generator.uniform(0, 0.6)))
                serial += 1
                rung = (DANA, ACME, EVE)[int(generator.integers(3))]
                new = world.memory(f"w{serial}", rung, turn.text, importance=1.0)
                taken = [i for i, m in world.current("t").items() if m.memory.rung == rung]
                removed = [str(generator.choice(taken))] if taken and generator.integers(2) else []
                world.write("t", [new] if generator.integers(3) else [], removed)
                client.drain(stream)
                compared += assert_floors_are_true(world, client, tolerance=0.02)
            await asyncio.gather(*world.anticipator._prediction._tasks)
            client.drain(stream)
            assert len(client.items) <= 30
            compared += assert_floors_are_true(world, client, tolerance=0.02)
            world.anticipator.check_integrity()
        assert compared > 500

    run_on_virtual_clock(scenario())


def test_a_floor_is_exact_at_its_own_version_also_for_what_becomes_servable_later() -> None:
    async def scenario() -> None:
        for exact_below in (20, 10**9):
            clock = FakeClock(NOW)
            world = World(clock, SETTINGS, exact_below=exact_below)
            fill(world, 200)
            stream = world.open_stream("t", "one")
            world.open_session("t", "one", "s", DANA)
            client = StreamClient("s")
            world.anticipator.observe("t", "s", 1, Turn(USER, "pune train tea"), partial=False)
            await asyncio.gather(*world.anticipator._prediction._tasks)
            client.drain(stream)
            assert client.coverages
            assert assert_floors_are_true(world, client) > 100
            clock.advance(61)  # what had a valid_from is servable now
            assert assert_floors_are_true(world, client) > 100

    asyncio.run(scenario())


def test_a_floor_is_the_last_total_by_the_fusion_that_it_names() -> None:
    """The world's model reads Latin letters alone."""

    async def scenario() -> None:
        world = World(FakeClock(NOW), SETTINGS)
        texts = ("चाय", "चाय pune", "train to pune", "dog")
        world.write("t", [world.memory(f"m{n}", ACME, texts[n % 4], importance=0.5) for n in range(60)])
        stream = world.open_stream("t", "one")
        world.open_session("t", "one", "s", DANA)
        client = StreamClient("s")
        for sequence, text in enumerate(("pune train", "चाय train", "चाय"), 1):
            world.anticipator.observe("t", "s", sequence, Turn(USER, text), partial=True)
            await asyncio.gather(*world.anticipator._prediction._tasks)
        client.drain(stream)
        memories = list(world.current("t").values())
        shares = []
        for coverage in client.coverages.values():
            frequencies = {term: sum(term in each.impacts for each in memories) for term in coverage.terms}
            weights = {term: inverse_document_frequency(60, count) for term, count in frequencies.items()}
            best = np.sort(totals(memories, coverage, weights, NOW))[::-1]
            assert coverage.floor == pytest.approx(best[SETTINGS.items_per_query - 1], abs=1e-5)
            shares.append(coverage.keyword_share)
        assert shares == pytest.approx([0.7, 0.825, 0.95])

    asyncio.run(scenario())


def test_a_write_that_found_no_room_voids_the_answer_that_was_under_way(run_on_virtual_clock: Run) -> None:
    async def scenario() -> None:
        release = asyncio.Event()

        async def when_released(text: str) -> NDArray[np.float32]:
            await release.wait()
            return embed_words(text)

        world = World(LoopClock(), SETTINGS, embed=when_released)
        fill(world, 60)
        stream = world.open_stream("t", "one")
        session = world.open_session("t", "one", "s", DANA)
        client = StreamClient("s")
        world.write("t", [world.memory(f"w{n}", DANA, "tea") for n in range(20)])
        world.anticipator.observe("t", "s", 1, Turn(USER, "dog"), partial=True)
        await asyncio.sleep(0)
        world.write("t", [world.memory(f"v{n}", DANA, "dog", importance=1.0) for n in range(11)])
        assert session.lost_version == world.versions["t"]
        release.set()
        await asyncio.gather(*world.anticipator._prediction._tasks)
        client.drain(stream)
        assert_floors_are_true(world, client)
        assert not client.coverages

    run_on_virtual_clock(scenario())


def test_an_answer_under_way_brings_no_memory_back_that_was_replaced_under_its_id(
    run_on_virtual_clock: Run,
) -> None:
    """Deleted and written anew under its id, when there was no room, while the second query was embedded."""

    async def scenario() -> None:
        async def slowly(text: str) -> NDArray[np.float32]:
            await asyncio.sleep(1)
            return embed_words(text)

        world = World(LoopClock(), SETTINGS, embed=slowly)
        world.write("t", [world.memory(f"a{n}", ACME, "tea") for n in range(10)])
        world.write("t", [world.memory("secret", ACME, "dog dog dog", importance=1.0)])
        stream = world.open_stream("t", "one")
        world.open_session("t", "one", "s", DANA)
        client = StreamClient("s")
        for number in range(30):
            world.write("t", [world.memory(f"w{number}", DANA, "tea")])
        for sequence, text in enumerate(("tea", "dog"), start=1):
            world.anticipator.observe("t", "s", sequence, Turn(USER, text), partial=False)
        await asyncio.sleep(1.5)  # "dog" is retrieved, the two turns together are not yet
        world.write("t", removed=["secret"])
        world.write("t", [world.memory("secret", ACME, "a harmless note")])
        world.write("t", removed=["w0"])
        await asyncio.gather(*world.anticipator._prediction._tasks)
        client.drain(stream)
        pushed = [item.indexed.memory.text for push in client.pushes for item in push.items]
        assert "dog dog dog" not in pushed

    run_on_virtual_clock(scenario())


class TestQueries:
    async def texts(self, *turns: tuple[str, bool]) -> list[str]:
        """What the predictor embeds for a conversation."""
        asked: list[str] = []

        async def record(text: str) -> NDArray[np.float32]:
            asked.append(text)
            return await embed_at_once(text)

        world = World(FakeClock())
        conversation = Conversation(12)
        for text, partial in turns:
            conversation.observe(Turn(USER, text), partial=partial)
        predictor = RecentTurns(world.clock, items_per_query=5)
        await predictor.propose(Situation(WordModel(record), world.lineage("t", DANA), conversation, 0))
        return asked

    async def test_a_partial_turn_asks_once(self) -> None:
        assert await self.texts(("hello", False), ("the trip to Pu", True)) == ["the trip to Pu"]

    async def test_a_finished_turn_asks_with_its_context_too(self) -> None:
        said = [("one", False), ("two", False), ("three", False), ("four", False)]
        assert await self.texts(*said) == ["four", "two", "three"], "each turn is embedded once"

    async def test_a_turn_is_embedded_once_however_often_it_is_asked_with(self) -> None:
        asked: list[str] = []

        async def record(text: str) -> NDArray[np.float32]:
            asked.append(text)
            return await embed_at_once(text)

        world, conversation = World(FakeClock()), Conversation(12)
        world.write("t", [world.memory(f"m{n}", DANA, text) for n, text in enumerate(("tea", "dog", "pune"))])
        predictor = RecentTurns(world.clock, items_per_query=2)
        for text in ("tea", "dog", "pune"):
            conversation.observe(Turn(USER, text), partial=False)
            situation = Situation(WordModel(record), world.lineage("t", DANA), conversation, 0)
            proposals = await predictor.propose(situation)
        assert asked == ["tea", "dog", "pune"]
        context = proposals[1].query
        assert context is not None and context.terms == frozenset({"tea", "dog", "pune"})
        expected = unit(np.sum([embed_words(text) for text in asked], axis=0))
        assert context.vector == pytest.approx(expected, abs=1e-6)

    async def test_a_vector_that_came_along_is_used_and_nothing_embedded(self) -> None:
        async def refuse(text: str) -> NDArray[np.float32]:
            raise AssertionError(f"{text!r} has a vector")

        world, conversation = World(FakeClock()), Conversation(12)
        given = [embed_words("tea"), -embed_words("tea")]  # they cancel out: the last one counts
        for vector in given:
            conversation.observe(Turn(USER, "dog", vector=vector), partial=False)
        situation = Situation(WordModel(refuse), world.lineage("t", DANA), conversation, 0)
        alone, context = await RecentTurns(world.clock, items_per_query=2).propose(situation)
        assert alone.query is not None and context.query is not None
        assert (alone.query.vector == given[1]).all() and (context.query.vector == given[1]).all()

    async def test_a_lone_turn_asks_once_and_silence_never(self) -> None:
        assert await self.texts(("one", False)) == ["one"]
        assert await self.texts() == []
        assert await self.texts(("  ", True)) == []

    async def test_a_final_turn_ends_its_partial(self) -> None:
        assert await self.texts(("the tr", True), ("the trip", False)) == ["the trip"]


async def test_a_failing_model_costs_the_guess_and_nothing_else() -> None:
    async def refuse(text: str) -> NDArray[np.float32]:
        raise Overloaded("busy", retry_after_seconds=1.0)

    world = World(FakeClock(), SETTINGS, embed=refuse)
    fill(world, 60)
    world.open_stream("t", "one")
    world.open_session("t", "one", "s", DANA)
    for sequence in (1, 2):
        world.anticipator.observe("t", "s", sequence, Turn(USER, "dog"), partial=False)
        await asyncio.gather(*world.anticipator._prediction._tasks)
        assert not world.anticipator._prediction._runs


async def test_while_a_prediction_runs_newer_observations_replace_each_other() -> None:
    asked: list[str] = []
    release = asyncio.Event()

    async def record(text: str) -> NDArray[np.float32]:
        asked.append(text)
        await release.wait()
        return embed_words(text)

    world = World(FakeClock(), SETTINGS, embed=record)
    fill(world, 60)
    stream = world.open_stream("t", "one")
    world.open_session("t", "one", "s", DANA)
    client = StreamClient("s")
    for sequence, text in enumerate(("the", "the dog", "the dog in", "the dog in pune"), start=1):
        world.anticipator.observe("t", "s", sequence, Turn(USER, text), partial=True)
        await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*world.anticipator._prediction._tasks)
    client.drain(stream)
    assert asked == ["the", "the dog in pune"]
    assert [push.caused_by_sequence for push in client.pushes if push.caused_at and push.last] == [1, 4]
