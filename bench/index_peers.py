"""precall's in-process search beside other vector stores that run in the caller's process: same vectors, same
recall.

The peers live in an environment of their own (`make .venv-index-peers/.installed`), whose Python runs
`tools/index_peers.py`; vectors and answers travel in files. Importance, age and words are left out on our
side as they are on theirs, so that every contender ranks by cosine.
"""

import json
import subprocess
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.index_memories import NOW, RUNG, Corpus
from precall.bench.results import Measurement
from precall.bench.stopwatch import measure_in_turns, median_ms
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast

SCRIPT: Final = Path(__file__).resolve().parent.parent / "tools" / "index_peers.py"
LIMIT: Final = 10
QUERIES: Final = 50
ROUNDS: Final = 4
_LONGEST_SECONDS: Final = 3_600


class PeersFailed(RuntimeError):
    """The peers could not be measured; the message says what to do."""


def measure_peers(size: int, dimension: int, python: Path) -> list[Measurement]:
    """A row a contender. Raises PeersFailed."""
    if not SCRIPT.exists():
        raise PeersFailed(f"{SCRIPT} is missing: the peers are measured from a checkout")
    corpus = Corpus(dimension)
    queries = corpus.queries(QUERIES)
    case = f"{size} x {dimension} peers"
    with tempfile.TemporaryDirectory() as folder:
        vectors = np.concatenate(
            [
                corpus.vectors(min(10_000, size - begin), part=part)
                for part, begin in enumerate(range(0, size, 10_000), 1)
            ]
        )
        np.savez(Path(folder) / "vectors.npz", vectors=vectors, queries=queries)
        exact = [set(np.argsort(-(vectors @ query))[:LIMIT].tolist()) for query in queries]
        del vectors
        ours_ms, ours_recall = _ours(corpus, size, queries, exact)
        rows = [
            Measurement("index", case, "precall p50", ours_ms, "ms"),
            Measurement("index", case, "precall recall@10", ours_recall, "share", "exact"),
        ]
        for name in ("qdrant-client", "chroma", "lancedb", "sqlite-vec"):
            answer = _run(python, name, Path(folder))
            recall = np.mean([len(set(a) & b) / LIMIT for a, b in zip(answer["ids"], exact, strict=True)])
            p50 = median_ms(answer["seconds"])
            rows.append(Measurement("index", case, "precall p50", ours_ms, "ms", name, p50 / ours_ms))
            rows.append(Measurement("index", case, f"{name} p50", p50, "ms"))
            rows.append(Measurement("index", case, f"{name} recall@10", float(recall), "share", "exact"))
    return rows


def _ours(
    corpus: Corpus, size: int, queries: NDArray[np.float32], exact: list[set[int]]
) -> tuple[float, float]:
    """Milliseconds at P50, and recall@10."""
    partition = Partition(RUNG, corpus.dimension, PartitionSettings())
    for batch in corpus.memories(size):
        partition.apply(added=[_alike(each) for each in batch])
    partition.wait_until_listed()
    asked = [Query(vector, [], NOW, LIMIT) for vector in queries]
    seconds = measure_in_turns(
        {"precall": lambda turn: search_fast([partition], asked[turn % QUERIES])}, rounds=ROUNDS * QUERIES
    )
    found = [{int(hit.memory.id[1:]) for hit in search_fast([partition], query)} for query in asked]
    recall = float(np.mean([len(a & b) / LIMIT for a, b in zip(found, exact, strict=True)]))
    return median_ms(seconds["precall"]), recall


def _alike(indexed: IndexedMemory) -> IndexedMemory:
    """The same memory with the importance and age that all have, and no words."""
    when = datetime.fromtimestamp(NOW, UTC)
    return IndexedMemory(replace(indexed.memory, importance=0.5, event_time=when), indexed.vector, {})


def _run(python: Path, name: str, folder: Path) -> dict[str, list]:  # type: ignore[type-arg]
    """What the script answers: ``ids``, a list a query; ``seconds``, a figure a search."""
    command = [str(python), "-P", str(SCRIPT), name, str(folder / "vectors.npz"), str(folder / name)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=True)
    except FileNotFoundError:
        raise PeersFailed(f"no Python at {python}: `make .venv-index-peers/.installed` makes one") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeersFailed(f"{name} failed in {python}: {last}") from error
    except subprocess.TimeoutExpired:
        raise PeersFailed(f"{name} took over {_LONGEST_SECONDS} s") from None
    answer: dict[str, list] = json.loads(done.stdout.splitlines()[-1])  # type: ignore[type-arg]
    return answer
