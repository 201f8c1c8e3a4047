"""Searches under filters: exactly what passes, as many as there are, on every kind of partition."""

from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory, Memory, MemoryKind, Source
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import count_visible, search_fast
from tests.fakes.memories import ACME, DANA, NOW, clustered, indexed, moment, near

DIMENSION = 16
COUNT = 240
VECTORS = clustered(COUNT, DIMENSION, seed=4)
PARTITIONS = {
    "exact": PartitionSettings(exact_below=10**9),
    "flat": PartitionSettings(exact_below=10, listed_from=10**9),
    "listed": PartitionSettings(exact_below=10, listed_from=20),
}


def memory(number: int, generator: np.random.Generator) -> IndexedMemory:
    return indexed(
        f"m{number}",
        DANA if number % 3 else ACME,
        vector=VECTORS[number % COUNT],
        event=NOW - 100.0 * float(generator.integers(10)),
        importance=float(generator.random()),
        kind=list(MemoryKind)[int(generator.integers(3))],
        key=["", "seat", "home"][int(generator.integers(3))],
        pinned=bool(generator.random() < 0.2),
        source=Source(conversation_id=["", "c1", "c2"][int(generator.integers(3))]),
        metadata={"team": "red"} if generator.random() < 0.5 else {"team": "blue", "room": "4"},
        expires_at=moment(NOW - 1) if generator.random() < 0.1 else None,
    )


def made(kind: str, held: list[IndexedMemory]) -> list[Partition]:
    parts = []
    for rung in (DANA, ACME):
        partition = Partition(rung, DIMENSION, PARTITIONS[kind])
        partition.apply(added=[each for each in held if each.memory.rung == rung])
        partition.wait_until_listed()
        parts.append(partition)
    return parts


def passes(memory: Memory, asked: MemoryFilter) -> bool:
    """Written from the comment on Filter in common.proto."""
    return (
        (not asked.kinds or memory.kind in asked.kinds)
        and all(memory.metadata.get(name) == value for name, value in asked.metadata.items())
        and (asked.event_from is None or memory.event_time >= asked.event_from)
        and (asked.event_until is None or memory.event_time < asked.event_until)
        and (not asked.conversation_ids or memory.source.conversation_id in asked.conversation_ids)
        and (not asked.keys or memory.key in asked.keys)
        and (not asked.pinned_only or memory.pinned)
    )


def moments() -> st.SearchStrategy[datetime | None]:
    return st.none() | st.integers(0, 10).map(lambda steps: moment(NOW - 100.0 * steps))


FILTERS = st.builds(
    MemoryFilter,
    kinds=st.frozensets(st.sampled_from(list(MemoryKind)), max_size=2),
    metadata=st.sampled_from([{}, {}, {"team": "red"}, {"team": "blue", "room": "4"}, {"team": "green"}]),
    event_from=moments(),
    event_until=moments(),
    conversation_ids=st.frozensets(st.sampled_from(["c1", "c2", "c9"]), max_size=2),
    keys=st.frozensets(st.sampled_from(["seat", "home", "gone"]), max_size=2),
    pinned_only=st.booleans(),
)


@pytest.fixture(scope="module", params=list(PARTITIONS))
def rungs(request: Any) -> list[Partition]:
    """Partitions after half of their rows went and others came."""
    generator = np.random.default_rng(1)
    parts = made(request.param, [memory(number, generator) for number in range(COUNT)])
    for partition in parts:
        partition.apply(removed=[each.memory.id for each in partition.all()[::2]])
    late = [memory(number, generator) for number in range(COUNT, COUNT + 90)]
    for partition in parts:
        partition.apply(added=[each for each in late if each.memory.rung == partition.rung])
        partition.wait_until_listed()
        partition.check_integrity()
    return parts


@given(asked=FILTERS, number=st.integers(0, COUNT - 1), limit=st.sampled_from([1, 7, 400]))
@settings(max_examples=60, deadline=None)
async def test_a_filtered_search_finds_all_that_passes_and_nothing_else(
    rungs: list[Partition], asked: MemoryFilter, number: int, limit: int
) -> None:
    everything = [each.memory for partition in rungs for each in partition.all()]
    passing = {each.id for each in everything if passes(each, asked)}
    servable = {each.id for each in everything if each.id in passing and each.servable_until > NOW}
    vector = near(VECTORS[number], seed=number)
    hits = search_fast(rungs, Query(vector, ["memori"], NOW, limit=limit, filter=asked))
    assert await count_visible(rungs, asked) == len(passing)
    found = [hit.memory.id for hit in hits]
    assert len(found) == len(set(found)) == min(limit, len(servable))
    assert set(found) <= servable
    unfiltered = search_fast(rungs, Query(vector, ["memori"], NOW, limit=10_000))
    expected = [hit.score.total for hit in unfiltered if hit.memory.id in servable][:limit]
    assert [hit.score.total for hit in hits] == pytest.approx(expected, abs=1e-6)


async def test_an_empty_filter_asks_for_nothing(rungs: list[Partition]) -> None:
    vector = VECTORS[5]
    plain = search_fast(rungs, Query(vector, [], NOW))
    empty = search_fast(rungs, Query(vector, [], NOW, filter=MemoryFilter()))
    assert [hit.memory.id for hit in plain] == [hit.memory.id for hit in empty]
    assert (
        await count_visible(rungs, MemoryFilter()) == await count_visible(rungs, None) == sum(map(len, rungs))
    )
