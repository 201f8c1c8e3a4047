"""Predictors at work: none waits for another, each looks at the newest, and what they bring is counted."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.chat_endpoint import ChatEndpointSettings
from precall.engine.anticipation.co_use import CoUse
from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.observer import SilentObserver
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.anticipation.predictor_set import PredictorSet
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.errors import ModelUnavailable
from tests.fakes.chat_server import ChatServer, chat_server
from tests.fakes.clock import FakeClock
from tests.fakes.memories import ACME, DANA, EVE
from tests.fakes.stream_client import StreamClient
from tests.fakes.world import LADDER, WordModel, World

SETTINGS = AnticipationSettings(complete_below=0, max_items=20, items_per_query=6)


class Recorder(SilentObserver):
    def __init__(self) -> None:
        self.counted: Counter[tuple[str, ...]] = Counter()

    def dropped(self, predictor: str, items: int, *, used: bool) -> None:
        self.counted["used" if used else "unused", predictor] += items

    def prediction_failed(self, predictor: str, reason: str) -> None:
        self.counted["failed", predictor, reason] += 1

    def predicted(self, predictor: str, seconds: float) -> None:
        self.counted["predicted", predictor] += 1


class Scripted:
    """Proposes what it is told to, once it is let go; remembers what it was asked about."""

    def __init__(self, name: str, cues: Cue, *memory_ids: str, free: bool = True) -> None:
        self.name = name
        self.cues = cues
        self.memory_ids = memory_ids
        self.free = asyncio.Event()
        if free:
            self.free.set()
        self.seen: list[tuple[Cue, str]] = []
        self.error: Exception | None = None
        self.running = 0

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        latest = situation.conversation.latest
        self.seen.append((situation.cue, latest.text if latest else ""))
        self.running += 1
        assert self.running == 1, "two runs at once"
        try:
            await self.free.wait()
        finally:
            self.running -= 1
        if self.error is not None:
            raise self.error
        if not self.memory_ids:
            return ()
        return [Proposal(self.name, self.memory_ids, situation.version, worth=0.5)]


class Stage:
    """One client of Dana's, on a server with the predictors that a test brings."""

    def __init__(self, *predictors: Scripted, settings: AnticipationSettings = SETTINGS) -> None:
        self.world = World(FakeClock(), settings)
        self.observer = Recorder()
        self.set = PredictorSet.of(settings, self.world.clock)
        self.anticipator = self.world.anticipator = Anticipator(
            settings, predictors or self.set.predictors, self.world.clock, self.observer, self.set.learners
        )
        for rung, letter in ((ACME, "a"), (DANA, "d"), (EVE, "e")):
            self.world.write(
                "t", [self.world.memory(f"{letter}{n}", rung, f"w{n} {letter}") for n in range(9)]
            )
        self.sequence = 0

    def open(self, session_id: str = "s") -> Session:
        stream = self.world.open_stream("t", f"stream of {session_id}")
        self.client = StreamClient(session_id)
        self.session = self.anticipator.open_session(
            tenant_id="t",
            stream_id=stream.id,
            session_id=session_id,
            conversation_id="",
            rung=DANA,
            ladder=LADDER,
            model=WordModel(),
            partitions=self.world.lineage("t", DANA),
            version=self.world.versions["t"],
        )
        return self.session

    def say(self, text: str, *used: str, partial: bool = False) -> None:
        self.sequence += 1
        role = TurnRole.ASSISTANT if used else TurnRole.USER
        turn = Turn(role, text, used)
        self.anticipator.observe("t", self.session.id, self.sequence, turn, partial=partial)

    async def settle(self) -> None:
        """Until no predictor that is free to answer has anything left to say."""
        for _ in range(50):
            await asyncio.sleep(0)
        self.client.drain(self.session.stream)
        self.anticipator.check_integrity()

    @property
    def co_use(self) -> CoUse:
        (learner,) = self.set.learners
        assert isinstance(learner, CoUse)
        return learner

    @property
    def held(self) -> set[str]:
        return set(self.client.items)


async def test_a_slow_predictor_delays_no_other_and_is_asked_once_about_what_came_meanwhile() -> None:
    slow = Scripted("slow", Cue.SAID | Cue.USED, "d1", free=False)
    quick = Scripted("quick", Cue.SAID, "d2")
    stage = Stage(slow, quick)
    stage.open()
    for text in ("one", "two", "three"):
        stage.say(text)
        await stage.settle()
    stage.say("four", "d3")
    await stage.settle()
    assert [text for _, text in quick.seen] == ["one", "two", "three", "four"]
    assert stage.held == {"d2"} and slow.seen == [(Cue.SAID, "one")]
    slow.free.set()
    await stage.settle()
    assert slow.seen == [(Cue.SAID, "one"), (Cue.SAID | Cue.USED, "four")]
    assert stage.held == {"d1", "d2"} and not stage.anticipator._prediction._runs


async def test_each_is_asked_on_its_occasions_alone() -> None:
    opening, using = Scripted("opening", Cue.OPENED, "d1"), Scripted("using", Cue.USED, "d2")
    stage = Stage(opening, using)
    stage.open()
    await stage.settle()
    assert stage.held == {"d1"} and opening.seen == [(Cue.OPENED, "")] and not using.seen
    stage.say("hello")
    stage.say("a partial answer", "d3", partial=True)
    await stage.settle()
    assert not using.seen
    stage.say("an answer", "d3")
    await stage.settle()
    assert using.seen == [(Cue.USED, "an answer")] and len(opening.seen) == 1


async def test_a_proposal_without_a_query_claims_nothing_and_one_that_changes_nothing_is_not_sent() -> None:
    stage = Stage(Scripted("quick", Cue.SAID, "d1", "e1", "unknown", "a1"))
    stage.open()
    stage.say("one")
    await stage.settle()
    assert stage.held == {"d1", "a1"} and not stage.client.coverages
    pushes = len(stage.client.pushes)
    stage.say("two")
    await stage.settle()
    assert len(stage.client.pushes) == pushes


async def test_a_failure_is_counted_and_costs_that_guess_alone() -> None:
    failing, quick = Scripted("failing", Cue.SAID, "d1"), Scripted("quick", Cue.SAID, "d2")
    failing.error = ModelUnavailable("gone")
    stage = Stage(failing, quick)
    stage.open()
    stage.say("one")
    await stage.settle()
    assert stage.held == {"d2"}
    failing.error = None
    stage.say("two")
    await stage.settle()
    assert stage.held == {"d1", "d2"}
    assert stage.observer.counted["failed", "failing", "MODEL_UNAVAILABLE"] == 1
    assert stage.observer.counted["predicted", "quick"] == 2


async def test_a_fault_in_a_predictor_is_seen_and_is_not_the_end_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = Scripted("faulty", Cue.SAID, "d1")
    faulty.error = KeyError("a fault")
    stage = Stage(faulty)
    stage.open()
    stage.say("one")
    await stage.settle()
    assert stage.observer.counted["failed", "faulty", "INTERNAL"] == 1
    assert "predictor faulty failed" in caplog.text
    faulty.error = None
    stage.say("two")
    await stage.settle()
    assert stage.held == {"d1"}


async def test_a_guess_that_comes_after_its_session_has_ended_holds_nothing() -> None:
    slow = Scripted("slow", Cue.SAID, "d1", free=False)
    stage = Stage(slow)
    session = stage.open()
    stage.say("one")
    await stage.settle()
    stage.anticipator.close_session("t", "s")
    slow.free.set()
    await stage.settle()
    assert not len(session.held) and not stage.held


async def test_hits_and_waste_are_told_by_predictor() -> None:
    stage = Stage(
        Scripted("first", Cue.OPENED, *(f"d{n}" for n in range(8))),
        Scripted("second", Cue.SAID, *(f"a{n}" for n in range(8))),
        settings=AnticipationSettings(complete_below=0, max_items=12),
    )
    stage.open()
    await stage.settle()
    stage.anticipator.served("t", "s", ["d0", "d7"])
    stage.anticipator.served("u", "s", ["d1"])
    stage.say("one")
    await stage.settle()
    counted = stage.observer.counted
    assert stage.held == {f"d{n}" for n in range(4)} | {f"a{n}" for n in range(8)}
    assert counted["used", "first"] == 1 and counted["unused", "first"] == 3
    stage.say("an answer", "a3")
    stage.anticipator.close_stream(stage.session.stream, "gone")
    assert counted["used", "first"] == 2 and counted["unused", "first"] == 6
    assert counted["used", "second"] == 1 and counted["unused", "second"] == 7


async def test_what_is_learned_is_forgotten_with_the_memory_and_with_the_tenant() -> None:
    stage = Stage()
    stage.open()
    for memory_id in ("d0", "d1", "a2"):
        stage.say("an answer", memory_id)
    co_use = stage.co_use
    assert all(co_use.knows("t", each) for each in ("d0", "d1", "a2"))
    stage.world.write("t", removed=["d1"])
    assert not co_use.knows("t", "d1") and co_use.knows("t", "a2")
    again = stage.world.current("t")["a2"]
    stage.world.write("t", [again], removed=["a2"])
    assert co_use.knows("t", "a2"), "weighed anew: it is the same memory"
    await stage.anticipator.drop_tenant("t")
    assert not co_use.knows("t", "a2")
    await stage.anticipator.drain(0)


async def test_a_session_that_holds_all_teaches_and_is_asked_about_nothing() -> None:
    stage = Stage(settings=AnticipationSettings(complete_below=50))
    stage.open()
    stage.say("an answer", "d0")
    stage.say("an answer", "d1")
    await stage.settle()
    assert stage.session.claims.wholly_complete and not stage.client.coverages
    assert stage.co_use.knows("t", "d1")
    assert not [each for each in stage.observer.counted if each[0] == "predicted"]


@pytest.mark.parametrize("items", [10, 20])
async def test_all_predictors_together_stay_within_the_budget_and_on_the_rungs_of_the_session(
    items: int,
) -> None:
    stage = Stage(settings=AnticipationSettings(complete_below=0, max_items=items, items_per_query=6))
    stage.open()
    for number in range(8):
        stage.say(f"w{number} d", partial=number % 3 == 0)
        stage.say("an answer", f"d{number}", f"a{8 - number}")
        await stage.settle()
        assert len(stage.client.items) <= items
        assert not [each for each in stage.held if each.startswith("e")]
        assert stage.held == set(stage.session.held.ids)
        for coverage_id in stage.client.coverages:
            assert stage.session.held.covers(coverage_id)


async def test_a_language_model_that_takes_its_time_delays_nobody_and_its_questions_are_answered() -> None:
    async with chat_server(lambda: ChatServer('["w7 a"]', held=asyncio.Event())) as model:
        endpoint = ChatEndpointSettings(model.url, "m", timeout_seconds=30)
        stage = Stage(settings=AnticipationSettings(complete_below=0, language_model=endpoint))
        stage.open()
        stage.say("w1 d")
        await model.arrived.wait()
        await stage.settle()
        assert {each.predictor for each in stage.client.coverages.values()} == {"recent_turns"}
        assert model.held is not None
        model.held.set()
        await asyncio.gather(*stage.anticipator._prediction._tasks)
        await stage.settle()
        foreseen = [each for each in stage.client.coverages.values() if each.predictor == "foreseen"]
        assert [each.terms for each in foreseen] == [frozenset({"w7"})]
        await stage.set.close()
