"""A partition's search beside what it is made of: the bare FAISS index, and a brute force in numpy.

    OPENBLAS_NUM_THREADS=1 python -P -m precall.bench.scan --csv bench/results.csv

One thread for everybody: the pool that numpy's product would wake takes the cores from its neighbours.
`exact` is a partition below its `exact_below`, `codes` one above it; both run candidates and rank, with
importances and ages that differ, and answer exactly. FAISS alone answers by cosine only and approximately.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.results import Measurement, append_results, print_measurements
from precall.bench.stopwatch import measure_in_turns, median_ms
from precall.engine.index import quantizer
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.selection import Selection
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Memory, MemoryKind, MemoryState, Source
from precall.scoring.keyword import document_impacts
from precall.scoring.ranking import RankingWeights, rank

DIMENSION: Final = 384
SIZES: Final = (500, 2_000, 10_000)
LARGE: Final = 100_000
LIMIT: Final = 10
FAISS_CANDIDATES: Final = 100
QUERIES: Final = 40
NOW: Final = 1_770_000_000.0
RUNG: Final = Rung(("acme", "dana"))
WORDS: Final = tuple(f"word{number}" for number in range(2_000))


def make_vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors in a hundred overlapping groups, shape ``(count, DIMENSION)``."""
    centres = np.random.default_rng(0).standard_normal((100, DIMENSION))
    generator = np.random.default_rng(seed)
    rows = centres[generator.integers(0, 100, count)] + generator.standard_normal((count, DIMENSION))
    unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def make_memories(vectors: NDArray[np.float32]) -> list[IndexedMemory]:
    generator = np.random.default_rng(4)
    memories = []
    for number, vector in enumerate(vectors):
        when = datetime.fromtimestamp(NOW - generator.exponential(60 * 86_400.0), UTC)
        words = [WORDS[rank] for rank in np.minimum(generator.zipf(1.3, 12), len(WORDS)) - 1]
        memory = Memory(
            id=f"m{number}", rung=RUNG, kind=MemoryKind.FACT, state=MemoryState.CURRENT, text="", key="",
            confidence=1.0, importance=float(generator.random()), event_time=when, said_time=when,
            valid_from=None, valid_until=None, expires_at=None, source=Source(), questions=(), metadata={},
            pinned=False, created_version=1, superseded_version=0, created_at=when, tokens_given=0,
            tokens_used=0,
        )  # fmt: skip
        memories.append(IndexedMemory(memory, vector.astype(np.float16), document_impacts(words)))
    return memories


def bare_faiss(vectors: NDArray[np.float32]) -> Any:
    """The index that a partition's codes stand in: flat, 8 bit, inner product, with our ranges."""
    import faiss

    ranges = quantizer.train(vectors)
    index = faiss.IndexScalarQuantizer(DIMENSION, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    faiss.copy_array_to_vector(np.concatenate([ranges.minimum, ranges.span]), index.sq.trained)
    index.is_trained = True
    index.add(vectors)
    return index


def measure(size: int) -> list[Measurement]:
    vectors, queries = make_vectors(size, seed=1), make_vectors(QUERIES, seed=2)
    memories, weights = make_memories(vectors), RankingWeights()
    index = bare_faiss(vectors)
    import faiss

    faiss.omp_set_num_threads(1)  # as a partition sets it
    partitions = {
        name: Partition(RUNG, DIMENSION, PartitionSettings(exact_below=exact_below))
        for name, exact_below in (("exact", size + 1), ("codes", 1))
    }
    for partition in partitions.values():
        partition.apply(added=memories)
    generator = np.random.default_rng(5)
    asked = [[WORDS[rank] for rank in np.minimum(generator.zipf(1.3, 5), 2_000) - 1] for _ in queries]

    def search(name: str, turn: int) -> list[str]:
        partition, number = partitions[name], turn % QUERIES
        term_weights = partition.statistics(asked[number]).weights(asked[number])
        table = partition.candidates(queries[number], term_weights, Selection(weights, NOW, LIMIT))
        return [table.ids[each.row] for each in rank(table, weights, now=NOW, limit=LIMIT)]

    def brute_force(turn: int) -> NDArray[np.int64]:
        scores = vectors @ queries[turn % QUERIES]
        best = np.argpartition(scores, size - LIMIT)[-LIMIT:]
        return best[np.argsort(-scores[best])]

    seconds = measure_in_turns(
        {
            "exact": lambda turn: search("exact", turn),
            "codes": lambda turn: search("codes", turn),
            "faiss": lambda turn: index.search(queries[turn % QUERIES][None], FAISS_CANDIDATES),
            "numpy": brute_force,
        },
        rounds=3 * QUERIES,
    )
    same = [len(set(search("exact", n)) & set(search("codes", n))) / LIMIT for n in range(QUERIES)]
    faiss_ms, numpy_ms = median_ms(seconds["faiss"]), median_ms(seconds["numpy"])
    case = f"{size} x {DIMENSION}"
    rows = [
        Measurement("scan", case, "FAISS alone p50", faiss_ms, "ms"),
        Measurement("scan", case, "numpy alone p50", numpy_ms, "ms"),
        Measurement("scan", case, "codes: recall@10", float(np.mean(same)), "share", "exact"),
    ]
    for name in ("exact", "codes"):
        ms = median_ms(seconds[name])
        rows.append(Measurement("scan", case, f"{name}: search p50", ms, "ms", "FAISS alone", faiss_ms / ms))
        rows.append(Measurement("scan", case, f"{name}: search p50", ms, "ms", "numpy alone", numpy_ms / ms))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    parser.add_argument("--large", action="store_true", help=f"measure {LARGE} memories too: a minute more")
    arguments = parser.parse_args()
    sizes = (*SIZES, LARGE) if arguments.large else SIZES
    measurements = [each for size in sizes for each in measure(size)]
    print_measurements(measurements)
    if arguments.csv:
        append_results(arguments.csv, measurements)


if __name__ == "__main__":
    main()
