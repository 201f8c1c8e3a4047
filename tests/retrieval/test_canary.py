"""The canary tells the truth about recall, off the caller's path, and within its budget."""

import asyncio

import pytest

from precall.engine.errors import ConfigurationError
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.retrieval.canary import CanarySettings, RecallCanary, RecallCheck, check_recall
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from tests.fakes.memories import ACME, DANA, NOW, clustered, indexed, near

VECTORS = clustered(400, 16, seed=5)
QUERY = Query(near(VECTORS[3], seed=1), ["memori"], NOW)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Told:
    """An observer; a check takes half a second on its clock."""

    def __init__(self) -> None:
        self.recalls: list[float] = []
        self.clock = Clock()

    def recall_checked(self, check: RecallCheck) -> None:
        self.recalls.append(check.found / (check.found + check.missed))
        self.clock.now += 0.5


@pytest.fixture
def rungs() -> list[Partition]:
    made = []
    for rung, numbers in ((DANA, range(300)), (ACME, range(300, 400))):
        partition = Partition(rung, 16, PartitionSettings(exact_below=50))
        partition.apply(
            added=[indexed(f"m{n}", rung, vector=VECTORS[n], importance=n % 7 / 7) for n in numbers]
        )
        made.append(partition)
    return made


def canary(told: Told, *, share: float = 1.0, chance: float = 0.0) -> RecallCanary:
    return RecallCanary(told, CanarySettings(share, busy_share=0.1), clock=told.clock, chance=lambda: chance)


async def test_a_right_answer_has_recall_1_and_one_that_lacks_three_has_less(rungs: list[Partition]) -> None:
    told = Told()
    hits = search_fast(rungs, QUERY)
    for answer in (hits, hits[:4] + hits[7:], []):
        bird = canary(told)
        bird.watch(rungs, QUERY, answer)
        assert len(told.recalls) < 3  # nothing is checked before the caller goes on
        await bird.settled()
    assert told.recalls == pytest.approx([1.0, 0.7, 0.0])


async def test_a_share_of_the_searches_is_checked_one_at_a_time_and_then_it_rests(
    rungs: list[Partition],
) -> None:
    told = Told()
    hits = search_fast(rungs, QUERY)
    unlucky = canary(told, share=0.01, chance=0.5)
    unlucky.watch(rungs, QUERY, hits)
    await unlucky.settled()
    assert told.recalls == []
    bird = canary(told)
    for _ in range(5):  # while the first is checked the others are let pass
        bird.watch(rungs, QUERY, hits)
    await bird.settled()
    assert len(told.recalls) == 1
    for moment, checks in ((104.9, 1), (105.1, 2)):  # half a second is a tenth of five
        told.clock.now = moment
        bird.watch(rungs, QUERY, hits)
        await bird.settled()
        assert len(told.recalls) == checks


async def test_partitions_that_score_every_memory_are_not_checked() -> None:
    told = Told()
    exact = Partition(DANA, 16, PartitionSettings())
    exact.apply(added=[indexed("m0", vector=VECTORS[0])])
    bird = canary(told)
    bird.watch([exact], QUERY, search_fast([exact], QUERY))
    await bird.settled()
    assert told.recalls == []


async def test_a_check_that_a_write_came_into_says_nothing(
    rungs: list[Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    hits = search_fast(rungs, QUERY)
    exact = rungs[0]._set.chosen

    def chosen_while_written(*arguments: object) -> object:
        monkeypatch.undo()
        rungs[0].apply(added=[indexed("late", vector=VECTORS[0])])
        return exact(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("precall.engine.index.partition._EXACT_CHUNK", 100)
    monkeypatch.setattr(rungs[0]._set, "chosen", chosen_while_written)
    assert await asyncio.to_thread(check_recall, rungs, QUERY, hits) is None


@pytest.mark.parametrize("fields", [{"share": -0.1}, {"share": 1.1}, {"busy_share": 0.0}])
def test_settings_that_mean_nothing_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        CanarySettings(**fields)
