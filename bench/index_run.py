"""One index of one size, measured: writes, searches beside the bare FAISS index, recall, memory, start."""

import gc
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.index_memories import NOW, RUNG, Corpus, words
from precall.bench.stopwatch import measure_in_turns
from precall.engine.index.coder import flat_index
from precall.engine.index.faiss_library import faiss_library
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.listed import ListedCodes
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.quantizer import train
from precall.engine.index.selection import Selection
from precall.engine.memory.memory import MemoryKind
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.ranking import rank

LIMIT: Final = 10
CANDIDATES: Final = 96
"""What a search asks of its codes first, and so what the bare index is asked for."""

_DELETED_ONE_BY_ONE: Final = 500


@dataclass(frozen=True, slots=True)
class IndexRun:
    """How much to measure. ``queries``: different ones; each is asked ``rounds`` times."""

    queries: int = 50
    rounds: int = 6
    recall_queries: int = 50


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """Of one size and dimension. Seconds unless the name says otherwise; arrays hold one figure a search."""

    size: int
    dimension: int
    kind: str
    added_per_second: float
    settle_seconds: float
    delete_seconds: NDArray[np.float64]
    bytes_per_memory: float
    search: NDArray[np.float64]
    search_with_words: NDArray[np.float64]
    faiss: NDArray[np.float64]
    faiss_says: str
    recall: float
    recall_filtered: float
    recall_after_deleting_half: float


def run_index(size: int, dimension: int, run: IndexRun) -> IndexFigures:
    corpus = Corpus(dimension)
    gc.collect()
    before = resident_bytes()
    partition = Partition(RUNG, dimension, PartitionSettings())
    adding = 0.0
    for batch in corpus.memories(size):
        begin = time.perf_counter()
        partition.apply(added=batch)
        adding += time.perf_counter() - begin
    del batch
    begin = time.perf_counter()
    partition.wait_until_listed()
    settle = time.perf_counter() - begin
    gc.collect()
    held = max(resident_bytes() - before, 0)

    queries = corpus.queries(run.queries)
    generator = np.random.default_rng(5)
    asked = [Query(vector, [], NOW, LIMIT) for vector in queries]
    worded = [Query(vector, words(generator, 3), NOW, LIMIT) for vector in queries]
    bare = _bare_index(partition, corpus, size, queries)
    gc.collect()
    gc.freeze()
    seconds = measure_in_turns(
        {
            "search": lambda turn: search_fast([partition], asked[turn % run.queries]),
            "faiss": lambda turn: bare.index.search(queries[turn % run.queries][None], min(CANDIDATES, size)),
            "words": lambda turn: search_fast([partition], worded[turn % run.queries]),
        },
        rounds=run.rounds * run.queries,
    )
    del bare.index
    recall = _recall(partition, worded[: run.recall_queries])
    only = MemoryFilter(kinds=frozenset({MemoryKind.EVENT}))
    filtered = [Query(q.vector, q.terms, NOW, LIMIT, filter=only) for q in worded[: run.recall_queries]]
    recall_filtered = _recall(partition, filtered)
    kind = "lists" if partition.listed else "codes" if partition.quantized else "exact"
    deletes = _delete_half(partition, size)
    return IndexFigures(
        size=size,
        dimension=dimension,
        kind=kind,
        added_per_second=size / adding,
        settle_seconds=settle,
        delete_seconds=deletes,
        bytes_per_memory=held / size,
        search=np.asarray(seconds["search"]),
        search_with_words=np.asarray(seconds["words"]),
        faiss=np.asarray(seconds["faiss"]),
        faiss_says=bare.says,
        recall=recall,
        recall_filtered=recall_filtered,
        recall_after_deleting_half=_recall(partition, worded[: run.recall_queries]),
    )


@dataclass(slots=True)
class _BareIndex:
    index: Any
    says: str


def _bare_index(partition: Partition, corpus: Corpus, size: int, queries: NDArray[np.float32]) -> _BareIndex:
    """FAISS alone over the same vectors: flat 8-bit codes, or lists with as many codes read as ours read."""
    faiss = faiss_library()
    codes = partition.codes
    ranges = train(corpus.vectors(min(size, 5_000), part=1))
    if isinstance(codes, ListedCodes):
        centres = codes.clusters.centres
        statistics = faiss.cvar.indexIVF_stats
        statistics.reset()
        for query in queries:
            search_fast([partition], Query(query, [], NOW, LIMIT))
        probes = max(1, round(statistics.ndis / len(queries) / (size / len(centres))))
        coarse = faiss.IndexFlatL2(corpus.dimension)
        coarse.add(centres)
        index = faiss.IndexIVFScalarQuantizer(
            coarse, corpus.dimension, len(centres), faiss.ScalarQuantizer.QT_8bit,
            faiss.METRIC_INNER_PRODUCT, False,
        )  # fmt: skip
        faiss.copy_array_to_vector(np.concatenate([ranges.minimum, ranges.span]), index.sq.trained)
        index.is_trained, index.nprobe = True, probes
        says = f"IVF{len(centres)},SQ8 nprobe {probes}"
        index.referenced_objects = [coarse]
    else:
        index, says = flat_index(ranges), "SQ8"
    for part, begin in enumerate(range(0, size, 10_000), 1):
        index.add(corpus.vectors(min(10_000, size - begin), part=part))
    faiss.omp_set_num_threads(1)
    return _BareIndex(index, says)


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
