"""One index of one size, measured: writes, searches beside the bare FAISS index, recall, memory, start."""

import gc
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.index_bare import bare_index
from precall.bench.index_corpus import VectorSource
from precall.bench.index_memories import CHUNK, NOW, RUNG, memories, words
from precall.bench.stopwatch import Timing, time_in_turns
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.selection import Selection
from precall.engine.memory.memory import MemoryKind
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.ranking import rank

LIMIT: Final = 10
RECALL: Final = 0.99
"""Of the ten best: precall's contract, and what its peers are brought to."""

_DELETED_ONE_BY_ONE: Final = 500


@dataclass(frozen=True, slots=True)
class IndexRun:
    """How much to measure. ``queries``: different ones; each is asked ``rounds`` times."""

    queries: int = 50
    rounds: int = 6
    recall_queries: int = 50


@dataclass(frozen=True, slots=True)
class BesideFaiss:
    """Searches in turns with those of `BareIndex`, whose recall is by cosine, against its exact ten."""

    search: Timing
    search_with_words: Timing
    bare: Timing
    refined: Timing
    bare_says: str
    refined_says: str
    recall_bare: float
    recall_refined: float


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """Of one size and source. Recall is by total, against the exact ten."""

    size: int
    dimension: int
    vectors: str
    kind: str
    added_per_second: float
    settle_seconds: float
    delete_seconds: NDArray[np.float64]
    bytes_per_memory: float
    beside: BesideFaiss
    recall: float
    recall_filtered: float
    recall_after_deleting_half: float


def run_index(source: VectorSource, size: int, run: IndexRun) -> IndexFigures:
    gc.collect()
    before = resident_bytes()
    partition = Partition(RUNG, source.dimension, PartitionSettings())
    adding = 0.0
    for first in range(0, size, CHUNK):
        batch = memories(source.vectors(first, min(first + CHUNK, size)), first=first)
        begin = time.perf_counter()
        partition.apply(added=batch)
        adding += time.perf_counter() - begin
    del batch
    begin = time.perf_counter()
    partition.wait_until_listed()
    settle = time.perf_counter() - begin
    gc.collect()
    held = max(resident_bytes() - before, 0)

    queries = source.queries(run.queries)
    generator = np.random.default_rng(5)
    asked = [Query(vector, [], NOW, LIMIT) for vector in queries]
    worded = [Query(vector, words(generator, 3), NOW, LIMIT) for vector in queries]
    beside = _beside_faiss(partition, source, size, asked, worded, run.rounds)
    recall = _recall(partition, worded[: run.recall_queries])
    only = MemoryFilter(kinds=frozenset({MemoryKind.EVENT}))
    filtered = [Query(q.vector, q.terms, NOW, LIMIT, filter=only) for q in worded[: run.recall_queries]]
    recall_filtered = _recall(partition, filtered)
    kind = "lists" if partition.listed else "codes" if partition.quantized else "exact"
    deletes = _delete_half(partition, size)
    return IndexFigures(
        size=size,
        dimension=source.dimension,
        vectors=source.says,
        kind=kind,
        added_per_second=size / adding,
        settle_seconds=settle,
        delete_seconds=deletes,
        bytes_per_memory=held / size,
        beside=beside,
        recall=recall,
        recall_filtered=recall_filtered,
        recall_after_deleting_half=_recall(partition, worded[: run.recall_queries]),
    )


def _beside_faiss(
    partition: Partition,
    source: VectorSource,
    size: int,
    asked: list[Query],
    worded: list[Query],
    rounds: int,
) -> BesideFaiss:
    bare = bare_index(partition, source, size, asked)
    queries = np.stack([query.vector for query in asked])
    count, exact = len(asked), exact_ids(source, size, queries)

    def recall_refined() -> float:
        return recall_of([bare.search_refined(query, LIMIT).tolist() for query in queries], exact)

    while recall_refined() < RECALL and bare.can_read_more:
        bare = bare.reading_more()
    gc.collect()
    gc.freeze()
    timings = time_in_turns(
        {
            "search": lambda turn: search_fast([partition], asked[turn % count]),
            "bare": lambda turn: bare.search(queries[turn % count]),
            "words": lambda turn: search_fast([partition], worded[turn % count]),
            "refined": lambda turn: bare.search_refined(queries[turn % count], LIMIT),
        },
        rounds=rounds * count,
    )
    return BesideFaiss(
        search=timings["search"],
        search_with_words=timings["words"],
        bare=timings["bare"],
        refined=timings["refined"],
        bare_says=bare.says,
        recall_bare=recall_of([bare.search(query)[:LIMIT].tolist() for query in queries], exact),
        refined_says=bare.refined_says,
        recall_refined=recall_refined(),
    )


def exact_ids(source: VectorSource, size: int, queries: NDArray[np.float32]) -> list[set[int]]:
    """Numbers of the ten vectors of greatest cosine, a set a query."""
    numbers = np.empty((len(queries), 0), np.int64)
    cosines = np.empty((len(queries), 0), np.float32)
    for begin in range(0, size, CHUNK):
        vectors = source.vectors(begin, min(begin + CHUNK, size))
        numbers = np.concatenate(
            [numbers, np.broadcast_to(np.arange(begin, begin + len(vectors)), (len(queries), len(vectors)))],
            axis=1,
        )
        cosines = np.concatenate([cosines, queries @ vectors.T], axis=1)
        best = np.argsort(-cosines, axis=1)[:, :LIMIT]
        numbers, cosines = np.take_along_axis(numbers, best, 1), np.take_along_axis(cosines, best, 1)
    return [set(row) for row in numbers.tolist()]


def recall_of(found: list[list[int]], exact: list[set[int]]) -> float:
    """Share of the exact ids that were found, over all queries."""
    shares = [len(best.intersection(ids)) / len(best) for ids, best in zip(found, exact, strict=True)]
    return float(np.mean(shares))


def _recall(partition: Partition, queries: list[Query]) -> float:
    """Share of the exact ten best by total that a search has, over the queries that have any."""
    shares = []
    for query in queries:
        term_weights = partition.statistics(query.terms).weights(query.terms)
        weights = query.fused_weights
        selection = Selection(weights, query.now, query.limit, filter=query.filter)
        table = partition.exact_candidates(query.vector, term_weights, selection)
        assert table is not None, "nobody writes here"
        best = [each.total for each in rank(table, weights, now=query.now, limit=query.limit)]
        if best:
            found = [hit.score.total for hit in search_fast([partition], query)]
            shares.append(sum(total >= best[-1] - 1e-6 for total in found) / len(best))
    return float(np.mean(shares)) if shares else 1.0


def _delete_half(partition: Partition, size: int) -> NDArray[np.float64]:
    """Every second memory goes, the first of them one by one; seconds of each of those."""
    ids = [f"m{number}" for number in range(0, size, 2)][: max(size // 2, 0)]
    seconds = []
    for memory_id in ids[:_DELETED_ONE_BY_ONE]:
        begin = time.perf_counter()
        partition.apply(removed=[memory_id])
        seconds.append(time.perf_counter() - begin)
    for begin_at in range(_DELETED_ONE_BY_ONE, len(ids), 1_000):
        partition.apply(removed=ids[begin_at : begin_at + 1_000])
    return np.asarray(seconds)


def resident_bytes() -> int:
    """Resident memory of the process; 0 where the kernel does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
