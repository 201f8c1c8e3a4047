"""Runs in the peers' environment, without precall: fills one store and searches it as it is told on stdin.

    python index_peers.py NAME VECTORS.npz SCRATCH_FOLDER

Each store as its documentation shows for a local collection by cosine, ten results a search, one thread. A
line `search N` asks for query N, a line `better` for more recall by whatever the store has for it; each is
answered by one line of JSON: `{"ids", "clock", "processor"}`, seconds, and `{"effort"}`, null when there is
no more to be had. The first line of all says the `{"effort"}` that it begins with.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

for _name in ("OMP", "OPENBLAS", "MKL", "RAYON"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"  # before numpy and the stores read it
os.environ.update(TOKIO_WORKER_THREADS="1", LANCE_CPU_THREADS="1")

import numpy as np  # noqa: E402

LIMIT = 10
BATCH = 2_000


class Store(Protocol):
    """A filled store. ``effort``: what its recall depends on, in words; empty where it looks at all."""

    effort: str

    def search(self, query: Any) -> list[int]: ...

    def better(self) -> bool:
        """Take more trouble with each search from here on; False when there is no more to be had."""
        ...


class Exhaustive:
    """A store that looks at every vector."""

    effort = ""

    def better(self) -> bool:
        return False


class Qdrant(Exhaustive):
    def __init__(self, vectors: Any, folder: Path) -> None:
        from qdrant_client import QdrantClient, models  # type: ignore[import-not-found]

        self._client = QdrantClient(":memory:")
        self._client.create_collection(
            "memories",
            vectors_config=models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE),
        )
        self._client.upload_collection("memories", vectors=vectors, ids=list(range(len(vectors))))

    def search(self, query: Any) -> list[int]:
        found = self._client.query_points("memories", query=query.tolist(), limit=LIMIT)
        return [int(point.id) for point in found.points]


class Chroma:
    """HNSW, whose documentation raises `ef_search` for recall; it is read when a collection is opened."""

    def __init__(self, vectors: Any, folder: Path) -> None:
        self._folder = folder
        self._ef = 100  # its default
        self._collection = self._client().create_collection(
            "memories", configuration={"hnsw": {"space": "cosine"}}
        )
        for begin in range(0, len(vectors), BATCH):
            rows = vectors[begin : begin + BATCH]
            self._collection.add(ids=[str(begin + row) for row in range(len(rows))], embeddings=rows)

    @property
    def effort(self) -> str:
        return f"ef_search {self._ef}"

    def better(self) -> bool:
        if self._ef >= 12_800:
            return False
        self._ef *= 2
        self._collection.modify(configuration={"hnsw": {"ef_search": self._ef}})
        self._collection = self._client().get_collection("memories")
        return True

    def _client(self) -> Any:
        import chromadb  # type: ignore[import-not-found]
        from chromadb.api.shared_system_client import (  # type: ignore[import-not-found]
            SharedSystemClient,
        )

        SharedSystemClient.clear_system_cache()  # which would give the index as it was opened first
        return chromadb.PersistentClient(str(self._folder), chromadb.Settings(anonymized_telemetry=False))

    def search(self, query: Any) -> list[int]:
        found = self._collection.query(query_embeddings=[query], n_results=LIMIT, include=[])
        return [int(i) for i in found["ids"][0]]


class Lance(Exhaustive):
    """Without an index, as a table of LanceDB is until one is made."""

    def __init__(self, vectors: Any, folder: Path) -> None:
        import lancedb  # type: ignore[import-not-found]
        import pyarrow  # type: ignore[import-not-found]

        flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
        self._table = lancedb.connect(str(folder)).create_table(
            "memories", pyarrow.table({"id": pyarrow.array(range(len(vectors))), "vector": flat})
        )

    def search(self, query: Any) -> list[int]:
        found = self._asked(query).select(["id"]).limit(LIMIT).to_arrow()
        return [int(i) for i in found["id"].to_pylist()]

    def _asked(self, query: Any) -> Any:
        return self._table.search(query).distance_type("cosine")


class LanceIndexed(Lance):
    """`IVF_HNSW_SQ`, whose recall grows with the partitions probed and the candidates scored exactly."""

    def __init__(self, vectors: Any, folder: Path) -> None:
        super().__init__(vectors, folder)
        self._table.create_index(metric="cosine", index_type="IVF_HNSW_SQ", vector_column_name="vector")
        self._probes, self._refined = 20, 1

    @property
    def effort(self) -> str:  # type: ignore[override]
        return f"IVF_HNSW_SQ, nprobes {self._probes}, refine_factor {self._refined}"

    def better(self) -> bool:
        if self._refined >= 10:
            if self._probes >= 640:
                return False
            self._probes *= 2
        self._refined = 10
        return True

    def _asked(self, query: Any) -> Any:
        return super()._asked(query).nprobes(self._probes).refine_factor(self._refined)


class SqliteVec(Exhaustive):
    def __init__(self, vectors: Any, folder: Path) -> None:
        import apsw  # type: ignore[import-not-found]  # many builds of Python's own sqlite3 load no extensions
        import sqlite_vec  # type: ignore[import-not-found]

        self._base = apsw.Connection(":memory:")
        self._base.enable_load_extension(True)
        self._base.load_extension(sqlite_vec.loadable_path())
        width = vectors.shape[1]
        self._base.execute(
            f"CREATE VIRTUAL TABLE memories USING vec0(vector float[{width}] distance_metric=cosine)"
        )
        with self._base:  # one transaction
            self._base.executemany(
                "INSERT INTO memories(rowid, vector) VALUES (?, ?)",
                ((row, vector.tobytes()) for row, vector in enumerate(vectors)),
            )

    def search(self, query: Any) -> list[int]:
        statement = "SELECT rowid FROM memories WHERE vector MATCH ? AND k = ? ORDER BY distance"
        return [row for (row,) in self._base.execute(statement, (query.tobytes(), LIMIT))]


STORES = {
    "qdrant-client": Qdrant,
    "chroma": Chroma,
    "lancedb": Lance,
    "lancedb indexed": LanceIndexed,
    "sqlite-vec": SqliteVec,
}


def main() -> None:
    name, vectors_path, folder = sys.argv[1:]
    with np.load(vectors_path) as file:
        vectors, queries = file["vectors"], file["queries"]
    store: Store = STORES[name](vectors, Path(folder))
    del vectors
    print(json.dumps({"effort": store.effort}), flush=True)
    for line in sys.stdin:
        if line.strip() == "better":
            improved = store.better()
            answer: dict[str, Any] = {"effort": store.effort if improved else None}
        else:
            query = queries[int(line.split()[1])]
            used, begin = time.process_time(), time.perf_counter()
            ids = store.search(query)
            clock, processor = time.perf_counter() - begin, time.process_time() - used
            answer = {"ids": ids, "clock": clock, "processor": processor}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
