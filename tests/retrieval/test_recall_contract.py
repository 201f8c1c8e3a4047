"""Recall is promised on every path: each kind of partition, several rungs, filters, before and after deletes.

A filter that leaves over some hundred rows is answered from codes, one that leaves fewer is not: both are
asked, and so are a filter by time and none at all.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory, Memory
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.keyword import inverse_document_frequency
from precall.scoring.ranking import RankingWeights
from precall.scoring.terms import analyze
from tests.fakes.memories import ACME, DANA, NOW, clustered, indexed, moment, near, sentence

DIMENSION: Final = 48
AT_FIRST: Final = 2_800
LATER: Final = 800
DAY: Final = 86_400.0
PARTITIONS: Final = {
    "exact": PartitionSettings(exact_below=10**9),
    "flat": PartitionSettings(exact_below=400, listed_from=10**9),
    "listed": PartitionSettings(exact_below=400, listed_from=1_000),
}
RECALL: Final = {"exact": 1.0, "flat": 1.0, "listed": 0.99}
FILTERS: Final = {
    "no filter": None,
    "half of them": MemoryFilter(metadata={"team": "red"}),
    "a few": MemoryFilter(keys=frozenset({"seat"})),
    "of some months": MemoryFilter(event_from=moment(NOW - 90 * DAY), event_until=moment(NOW - 10 * DAY)),
    "half, of some months": MemoryFilter(metadata={"team": "red"}, event_from=moment(NOW - 90 * DAY)),
}
WEIGHTS: Final = [RankingWeights(), RankingWeights(1, 0, 0), RankingWeights(0.2, 0.5, 0.3)]


def memories() -> list[IndexedMemory]:
    """All that is ever written, on two rungs in turn, none like another in importance and age."""
    count = AT_FIRST + LATER
    generator = np.random.default_rng(1)
    vectors = clustered(count, DIMENSION, seed=1)
    return [
        indexed(
            f"m{number}",
            DANA if number % 2 else ACME,
            vector=vectors[number],
            text=sentence(generator),
            importance=float(generator.random()),
            event=NOW - float(generator.exponential(60 * DAY)),
            key="seat" if generator.random() < 0.02 else "",
            metadata={"team": "red" if generator.random() < 0.5 else "blue"},
        )
        for number in range(count)
    ]


class Corpus:
    """Two rungs that one reader sees, and what stands on them, once more as columns."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        everything = memories()
        self.held = {each.memory.id: each for each in everything[:AT_FIRST]}
        self.arriving = everything[AT_FIRST:]
        self.rungs = [Partition(rung, DIMENSION, PARTITIONS[kind]) for rung in (DANA, ACME)]
        self._apply(list(self.held.values()), [])

    def turn_over(self) -> None:
        """Half of each rung goes, and a third as much comes."""
        leaving = [memory_id for number, memory_id in enumerate(self.held) if number % 4 < 2]
        self._apply(self.arriving, leaving)
        for memory_id in leaving:
            del self.held[memory_id]
        self.held.update((each.memory.id, each) for each in self.arriving)

    def _apply(self, added: Sequence[IndexedMemory], removed: Sequence[str]) -> None:
        for partition in self.rungs:
            partition.apply(added=[m for m in added if m.memory.rung == partition.rung], removed=removed)
            partition.wait_until_listed()
            partition.check_integrity()
            assert partition.quantized == (self.kind != "exact")
            assert partition.listed == (self.kind == "listed")

    def read(self) -> None:
        everything = list(self.held.values())
        self.vectors = np.stack([each.vector for each in everything]).astype(np.float64)
        self.importance = np.array([each.memory.importance for each in everything])
        self.ages = np.array([NOW - each.memory.event_time.timestamp() for each in everything])
        self.impacts = {
            term: np.array([each.impacts.get(term, 0.0) for each in everything])
            for term in {term for each in everything for term in each.impacts}
        }
        self.passing = {
            name: np.array([passes(each.memory, asked) for each in everything])
            for name, asked in FILTERS.items()
        }

    def totals(self, query: Query, asked: str) -> dict[str, float]:
        """Id -> total of all that passes the filter, in float64, written from DESIGN.md."""
        weights = query.fused_weights
        bm25 = np.zeros(len(self.held))
        for term in query.terms:
            if (impacts := self.impacts.get(term)) is not None:
                bm25 += impacts * inverse_document_frequency(len(self.held), np.count_nonzero(impacts))
        fusion, cosines = weights.fusion, np.clip(self.vectors @ query.vector, 0, 1)
        relevance = (1 - fusion.share) * cosines + fusion.share * bm25 / (bm25 + fusion.half)
        totals = (
            weights.relevance * relevance
            + weights.importance * self.importance
            + weights.recency * 0.5 ** (np.maximum(self.ages, 0) / weights.half_life_seconds)
        )
        passing = self.passing[asked]
        return {memory_id: totals[row] for row, memory_id in enumerate(self.held) if passing[row]}


def passes(memory: Memory, asked: MemoryFilter | None) -> bool:
    """As the comment on Filter in common.proto says it, for the fields that are asked for here."""
    return asked is None or (
        all(memory.metadata.get(name) == value for name, value in asked.metadata.items())
        and (not asked.keys or memory.key in asked.keys)
        and (asked.event_from is None or memory.event_time >= asked.event_from)
        and (asked.event_until is None or memory.event_time < asked.event_until)
    )


@pytest.fixture(scope="module", params=[f"{kind}{later}" for kind in PARTITIONS for later in ("", ", later")])
def corpus(request: Any) -> Corpus:
    kind, _, later = request.param.partition(", ")
    made = Corpus(kind)
    if later:
        made.turn_over()
    made.read()
    return made


def recall(hits: Sequence[Hit], totals: dict[str, float], limit: int) -> float:
    """The share of the best that was found; each total is the right one, and none comes twice."""
    found = [hit.memory.id for hit in hits]
    assert len(found) == len(set(found)) == min(limit, len(totals))
    for hit in hits:
        assert hit.score.total == pytest.approx(totals[hit.memory.id], abs=5e-6)
    bar = sorted(totals.values(), reverse=True)[: len(found)][-1] if found else 0.0
    return sum(totals[memory_id] >= bar - 5e-6 for memory_id in found) / max(len(found), 1)


@pytest.mark.parametrize("asked", FILTERS)
def test_the_best_are_found_on_every_path(corpus: Corpus, asked: str) -> None:
    generator = np.random.default_rng(7)
    everything = list(corpus.held.values())
    shares = []
    for number in range(8):
        like = everything[int(generator.integers(len(everything)))].vector.astype(np.float32)
        terms = analyze(sentence(generator, 2)) if number % 2 else []
        query = Query(near(like, seed=number), list(dict.fromkeys(terms)), NOW, filter=FILTERS[asked])
        for weights in WEIGHTS:
            query = replace(query, weights=weights, limit=(10, 3, 40)[number % 3])
            shares.append(recall(search_fast(corpus.rungs, query), corpus.totals(query, asked), query.limit))
    assert float(np.mean(shares)) >= RECALL[corpus.kind]
