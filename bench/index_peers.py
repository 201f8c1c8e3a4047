"""precall's in-process search beside other vector stores that run in the caller's process: same vectors, same
recall, query by query in turns.

The peers live in an environment of their own (`make .venv-index-peers/.installed`), whose Python runs
`tools/index_peers.py`. A peer whose search is approximate is told to take more trouble until it finds 99 in
a hundred, as precall does, or has no more to give; what it then had is in its row. Importance, age and words
are left out on our side as they are on theirs, so that every contender ranks by cosine.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from precall.bench.index_corpus import VectorSource
from precall.bench.index_memories import CHUNK, NOW, RUNG, memories
from precall.bench.index_run import LIMIT, RECALL, exact_ids, recall_of
from precall.bench.results import Measurement
from precall.bench.stopwatch import Timing, time_in_turns
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast

SCRIPT: Final = Path(__file__).resolve().parent.parent / "tools" / "index_peers.py"
PEERS: Final = ("qdrant-client", "chroma", "lancedb", "lancedb indexed", "sqlite-vec")
QUERIES: Final = 50
ROUNDS: Final = 4


class PeersFailed(RuntimeError):
    """The peers could not be measured; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One peer and precall in turns. ``effort``: what the peer's recall took; empty for an exact one."""

    name: str
    effort: str
    recall: float
    peer: Timing
    ours: Timing


def measure_peers(
    source: VectorSource, size: int, python: Path, peers: Sequence[str] = PEERS
) -> list[Measurement]:
    """Rows of every peer beside precall. Raises PeersFailed."""
    if not SCRIPT.exists():
        raise PeersFailed(f"{SCRIPT} is missing: the peers are measured from a checkout")
    queries = source.queries(QUERIES)
    exact = exact_ids(source, size, queries)
    partition = Partition(RUNG, source.dimension, PartitionSettings())
    with tempfile.TemporaryDirectory() as folder:
        vectors = np.empty((size, source.dimension), np.float32)
        for begin in range(0, size, CHUNK):
            end = min(begin + CHUNK, size)
            vectors[begin:end] = source.vectors(begin, end)
            partition.apply(added=[_alike(each) for each in memories(vectors[begin:end], first=begin)])
        np.savez(Path(folder) / "vectors.npz", vectors=vectors, queries=queries)
        del vectors
        partition.wait_until_listed()
        case = f"{size} x {source.dimension} peers, {source.says}"
        asked = [Query(vector, [], NOW, LIMIT) for vector in queries]
        found = [[int(hit.memory.id[1:]) for hit in search_fast([partition], query)] for query in asked]
        rows = [Measurement("index", case, "precall recall@10", recall_of(found, exact), "share", "exact")]
        for name in peers:
            with _started(python, name, Path(folder)) as peer:
                rows += _rows(case, _in_turns(peer, partition, asked, exact))
    return rows


class _Peer:
    """A running peer; see `tools/index_peers.py` for what is said to it."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self.name = name
        self._process = process
        self.effort: str = self._answer()["effort"]

    def ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended: its last words are read below
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None and self._process.stderr is not None
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._process.stderr.seek(0)
        last = (self._process.stderr.read().strip().splitlines() or ["no message"])[-1]
        raise PeersFailed(f"{self.name} failed: {last}")

    def better(self) -> bool:
        effort = self.ask("better")["effort"]
        self.effort = effort or self.effort
        return effort is not None


@contextmanager
def _started(python: Path, name: str, folder: Path) -> Iterator[_Peer]:
    command = [str(python), "-P", str(SCRIPT), name, str(folder / "vectors.npz"), str(folder / name)]
    with (folder / "messages").open("w+", encoding="utf-8") as messages:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages, text=True
            )
        except FileNotFoundError:
            raise PeersFailed(
                f"no Python at {python}: `make .venv-index-peers/.installed` makes one"
            ) from None
        process.stderr = messages
        try:
            yield _Peer(name, process)
        finally:
            process.stderr = None
            process.kill()
            process.communicate()


def _in_turns(peer: _Peer, partition: Partition, asked: list[Query], exact: list[set[int]]) -> Pair:
    def recall() -> float:
        return recall_of([peer.ask(f"search {number}")["ids"] for number in range(len(asked))], exact)

    reached = recall()
    while reached < RECALL and peer.better():
        reached = recall()
    answers: list[dict[str, Any]] = []
    timings = time_in_turns(
        {
            "ours": lambda turn: search_fast([partition], asked[turn % len(asked)]),
            "peer": lambda turn: answers.append(peer.ask(f"search {turn % len(asked)}")),
        },
        rounds=ROUNDS * len(asked),
    )
    # As the peer timed itself: the way to its process and back is not its own.
    timed = answers[-ROUNDS * len(asked) :]
    theirs = Timing(
        np.asarray([answer["clock"] for answer in timed]),
        np.asarray([answer["processor"] for answer in timed]),
    )
    return Pair(peer.name, peer.effort, reached, theirs, timings["ours"])


def _rows(case: str, pair: Pair) -> list[Measurement]:
    name = f"{pair.name} ({pair.effort})" if pair.effort else pair.name

    def row(metric: str, value: float, unit: str = "ms") -> Measurement:
        return Measurement("index", case, metric, value, unit, name)

    ours, peer = pair.ours, pair.peer
    return [
        Measurement("index", case, "precall p50", ours.p50_ms, "ms", name, peer.p50_ms / ours.p50_ms),
        row("precall fastest", ours.fastest_ms),
        row("precall processor p50", ours.processor_ms),
        row("peer p50", peer.p50_ms),
        row("peer fastest", peer.fastest_ms),
        row("peer processor p50", peer.processor_ms),
        row("peer recall@10", pair.recall, "share"),
    ]


def _alike(indexed: IndexedMemory) -> IndexedMemory:
    """The same memory with the importance and age that all have, and no words."""
    when = datetime.fromtimestamp(NOW, UTC)
    return IndexedMemory(replace(indexed.memory, importance=0.5, event_time=when), indexed.vector, {})
