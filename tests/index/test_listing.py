"""Codes in lists: made beside reads and writes, nearly as good as an exhaustive search, whole after every
change.
"""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from precall.engine.index import listing
from precall.engine.index.code_keeper import CodeKeeper
from precall.engine.index.listed import ListedCodes
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.selection import Selection
from precall.engine.memory.memory import IndexedMemory
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.ranking import RankingWeights, rank
from tests.fakes.memories import DANA, NOW, clustered, indexed, near, sentence

DIMENSION = 64
DAY = 86_400.0
LISTED = PartitionSettings(exact_below=100, listed_from=2_000)
WEIGHTS = [
    RankingWeights(),
    RankingWeights(1, 0, 0),
    RankingWeights(0.1, 0.6, 0.3),
    RankingWeights(0.7, 0.2, 0.1, 3 * DAY),
]


def memories(count: int, *, seed: int = 1, prefix: str = "m") -> list[IndexedMemory]:
    generator = np.random.default_rng(seed)
    vectors = clustered(count, DIMENSION, seed=seed)
    return [
        indexed(
            f"{prefix}{number}",
            vector=vectors[number],
            text=sentence(generator),
            importance=float(generator.random()),
            event=NOW - float(generator.exponential(60 * DAY)),
        )
        for number in range(count)
    ]


def recall(
    partition: Partition, held: list[IndexedMemory], weights: RankingWeights, queries: int = 40
) -> float:
    generator = np.random.default_rng(3)
    shares = []
    for number in range(queries):
        asked = near(held[int(generator.integers(len(held)))].vector.astype(np.float32), seed=number)
        terms = sentence(generator, 2).split() if number % 2 else []
        query = Query(asked, terms, NOW, weights=weights)
        term_weights = partition.statistics(terms).weights(terms)
        selection = Selection(query.fused_weights, NOW, 10)
        table = partition.exact_candidates(asked, term_weights, selection)
        assert table is not None
        best = {table.ids[each.row] for each in rank(table, selection.weights, now=NOW, limit=10)}
        hits = search_fast([partition], query)
        shares.append(len(best & {hit.memory.id for hit in hits}) / len(best))
    return float(np.mean(shares))


@pytest.fixture(scope="module")
def held() -> list[IndexedMemory]:
    return memories(3_000)


def listed(held: list[IndexedMemory]) -> Partition:
    partition = Partition(DANA, DIMENSION, LISTED)
    partition.apply(added=held)
    partition.wait_until_listed()
    assert partition.listed
    return partition


def misfits(partition: Partition) -> int:
    """Rows that are scored whatever the lists say of them."""
    assert partition.codes is not None
    return len(partition.codes.misfits)


def test_listed_codes_find_nearly_all_of_the_best_before_and_after_half_was_deleted(
    held: list[IndexedMemory],
) -> None:
    partition = listed(held)
    partition.check_integrity()
    for weights in WEIGHTS:
        assert recall(partition, held, weights) >= 0.99
    partition.apply(removed=[each.memory.id for each in held[::2]])
    partition.check_integrity()
    for weights in WEIGHTS:
        assert recall(partition, held[1::2], weights) >= 0.99


def test_a_search_reads_a_part_of_the_lists_only(held: list[IndexedMemory]) -> None:
    partition = listed(held)
    codes = partition._keeper.codes
    assert isinstance(codes, ListedCodes)
    read: list[int] = []
    scan = codes._scan

    def counting(lifted, lists, count, selector):  # type: ignore[no-untyped-def]
        read.append(sum(codes._invlists.list_size(int(number)) for number in lists))
        return scan(lifted, lists, count, selector)

    codes._scan = counting  # type: ignore[method-assign]
    for number in range(20):
        search_fast([partition], Query(near(held[number].vector.astype(np.float32), seed=number), [], NOW))
    assert sum(read) / 20 < len(held)


class Gate:
    """Holds a listing before its next chunk until it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.open = threading.Semaphore(0)

    def pass_through(self) -> None:
        self.reached.release()
        assert self.open.acquire(timeout=30)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Chunks of 500 rows, each held between its reading and its appending."""
    made = Gate()
    prepare = ListedCodes.prepare

    def slowly(self: ListedCodes, rows: np.ndarray) -> object:
        prepared = prepare(self, rows)
        if len(rows) > 1:
            made.pass_through()
        return prepared

    monkeypatch.setattr(listing, "_CHUNK", 500)
    monkeypatch.setattr(ListedCodes, "prepare", slowly)
    yield made
    made.open.release(1_000)


def test_what_is_written_and_removed_during_a_listing_is_right_in_it(
    held: list[IndexedMemory], gate: Gate
) -> None:
    partition = Partition(DANA, DIMENSION, LISTED)
    partition.apply(added=held[:2_400])
    generator = np.random.default_rng(5)
    model = {each.memory.id: each for each in held[:2_400]}
    for step in range(4):
        assert gate.reached.acquire(timeout=30)
        assert not partition.listed
        gone = [str(i) for i in generator.choice(sorted(model), 150, replace=False)]
        arrivals = memories(40, seed=50 + step, prefix=f"n{step}-")
        for part in range(0, 150, 30):
            partition.apply(removed=gone[part : part + 30])
            partition.apply(added=arrivals[part // 30 * 8 : part // 30 * 8 + 8])
        for memory_id in gone:
            del model[memory_id]
        model.update((each.memory.id, each) for each in arrivals)
        assert search_fast([partition], Query(arrivals[0].vector.astype(np.float32), [], NOW))
        gate.open.release()
    gate.open.release(1_000)
    partition.wait_until_listed()
    assert partition.listed
    partition.check_integrity()
    assert {each.memory.id for each in partition.all()} == model.keys()
    assert recall(partition, list(model.values()), WEIGHTS[0]) >= 0.99


def test_removals_that_go_past_the_chunk_in_hand_are_survived(held: list[IndexedMemory], gate: Gate) -> None:
    partition = Partition(DANA, DIMENSION, LISTED)
    partition.apply(added=held[:2_100])
    for _ in range(2):
        assert gate.reached.acquire(timeout=30)
        gate.open.release()
    assert gate.reached.acquire(timeout=30)  # rows 1,000 to 1,500 are in hand
    partition.apply(removed=[each.memory.id for each in held[900:2_100]])
    partition.apply(added=held[2_100:])
    gate.open.release(1_000)
    partition.wait_until_listed()
    assert partition.listed and len(partition) == 1_800
    partition.check_integrity()


def test_a_partition_emptied_during_its_listing_forgets_the_listing(
    held: list[IndexedMemory], gate: Gate
) -> None:
    partition = Partition(DANA, DIMENSION, LISTED)
    partition.apply(added=held[:2_000])
    assert gate.reached.acquire(timeout=30)
    thread = partition._keeper._thread
    assert thread is not None
    partition.apply(removed=[each.memory.id for each in held[:2_000]])
    partition.apply(added=held[:5])
    gate.open.release(1_000)
    thread.join(timeout=30)
    assert not thread.is_alive() and not partition.listed
    partition.check_integrity()


def test_lists_are_made_anew_when_most_rows_came_later(held: list[IndexedMemory]) -> None:
    partition = Partition(DANA, DIMENSION, PartitionSettings(exact_below=50, listed_from=200))
    partition.apply(added=held[:200])
    partition.wait_until_listed()
    first = partition._keeper.codes
    partition.apply(added=held[200:1_000])
    partition.wait_until_listed()
    assert partition.listed and partition._keeper.codes is not first
    partition.check_integrity()
    assert recall(partition, held[:1_000], WEIGHTS[0]) >= 0.99


def test_a_topic_that_came_later_is_found_before_its_lists_are_made_and_after(
    held: list[IndexedMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cluster has a centre near to it, and what bounds the lists was measured without it."""
    partition = listed(held)
    later = memories(1_500, seed=2, prefix="later")
    with monkeypatch.context() as context:
        context.setattr(CodeKeeper, "_list_in_background", lambda self: None)
        partition.apply(added=later[:-1])
        for weights in WEIGHTS:
            assert recall(partition, later[:-1], weights) >= 0.99
            assert recall(partition, held, weights) >= 0.99
        partition.check_integrity()
    apart = misfits(partition)
    partition.apply(added=later[-1:])
    partition.wait_until_listed()
    assert misfits(partition) < apart / 2, "the new topic has clusters of its own"
    for weights in WEIGHTS:
        assert recall(partition, later, weights) >= 0.99


def test_events_that_never_end_do_not_hide_what_is_fresh_now(held: list[IndexedMemory]) -> None:
    """Times that stand for "no end" move the origin of ages by centuries, which no float32 bridges."""
    far = indexed_at(held[: len(held) // 5], 250_000_000_000.0)
    standing = [*far, *held[len(far) :]]
    partition = listed(standing)
    for weights in (RankingWeights(0.5, 0.0, 1.0), RankingWeights(0.5, 0.2, 0.41), *WEIGHTS):
        assert recall(partition, standing[len(far) :], weights) >= 0.99


def indexed_at(memories: list[IndexedMemory], event: float) -> list[IndexedMemory]:
    moment = datetime.fromtimestamp(event, UTC)
    return [replace(each, memory=replace(each.memory, event_time=moment)) for each in memories]
