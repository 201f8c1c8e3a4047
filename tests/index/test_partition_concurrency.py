"""A search beside writes sees each of them whole."""

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.index.selection import Selection
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.ranking import RankingWeights
from tests.fakes.memories import DANA, NOW, clustered, indexed

VECTORS = clustered(400, 16, seed=5)
QUERY = VECTORS[0]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as the interpreter allows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("exact_below", [10, 10**9])
def test_a_supersede_shows_one_statement_never_both_nor_neither(
    exact_below: int, hasty_threads: None
) -> None:
    """One key's statement is the best match for the query and is superseded again and again."""
    partition = Partition(DANA, 16, PartitionSettings(exact_below=exact_below))
    partition.apply(added=[indexed(f"m{n}", vector=VECTORS[n], importance=0.0) for n in range(1, 400)])
    partition.apply(added=[indexed("seat-0", vector=QUERY, importance=1.0)])
    faults: list[str] = []
    searches = 0
    stop = threading.Event()

    def read() -> None:
        nonlocal searches
        selection = Selection(RankingWeights(), NOW, 3)
        while not stop.is_set():
            table = partition.candidates(QUERY, {}, selection)
            seats = [memory_id for memory_id in table.ids if memory_id.startswith("seat")]
            best = [hit.memory.id for hit in search_fast([partition], Query(QUERY, [], NOW, limit=3))]
            if len(seats) != 1 or not best[0].startswith("seat") or len(best) != 3:
                faults.append(f"{seats} {best}")
            searches += 1

    def write() -> None:
        for statement in range(1, 20_000):
            if statement > 400 and searches > 20:
                break
            successor = indexed(f"seat-{statement}", vector=QUERY, importance=1.0)
            partition.apply(added=[successor], removed=[f"seat-{statement - 1}"])
        stop.set()

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert faults == []
    assert searches > 20
    partition.check_integrity()


def test_a_memory_destroyed_during_a_search_is_not_returned() -> None:
    """Between the scan and the hits a delete lands: the search looks again."""
    partition = Partition(DANA, 16, PartitionSettings())
    partition.apply(added=[indexed(f"m{n}", vector=VECTORS[n]) for n in range(10)])
    scan = partition.candidates
    scans = 0

    def scan_then_delete(*arguments: object) -> object:
        nonlocal scans
        scans += 1
        table = scan(*arguments)  # type: ignore[arg-type]
        if scans == 1:
            partition.apply(removed=["m0"])
        return table

    partition.candidates = scan_then_delete  # type: ignore[method-assign, assignment]
    hits = search_fast([partition], Query(QUERY, [], NOW, limit=5))
    assert scans == 2
    assert "m0" not in [hit.memory.id for hit in hits]
    assert len(hits) == 5
    assert np.isfinite([hit.score.total for hit in hits]).all()
