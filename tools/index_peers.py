"""Runs in the peers' environment, without precall: fills one store, searches it, prints the answers as JSON.

    python index_peers.py NAME VECTORS.npz SCRATCH_FOLDER

Each store as its documentation shows for a local collection by cosine, with its defaults; ten results a
search.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 10
ROUNDS = 4
BATCH = 2_000

Search = Callable[[Any], "list[int]"]


def qdrant(vectors: Any, folder: Path) -> Search:
    from qdrant_client import QdrantClient, models  # type: ignore[import-not-found]

    client = QdrantClient(":memory:")
    client.create_collection(
        "memories", vectors_config=models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
    )
    client.upload_collection("memories", vectors=vectors, ids=list(range(len(vectors))))
    return lambda query: [
        int(point.id) for point in client.query_points("memories", query=query.tolist(), limit=LIMIT).points
    ]


def chroma(vectors: Any, folder: Path) -> Search:
    import chromadb  # type: ignore[import-not-found]

    client = chromadb.PersistentClient(str(folder), chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection("memories", metadata={"hnsw:space": "cosine"})
    for begin in range(0, len(vectors), BATCH):
        rows = vectors[begin : begin + BATCH]
        collection.add(ids=[str(begin + row) for row in range(len(rows))], embeddings=rows)
    return lambda query: [
        int(i) for i in collection.query(query_embeddings=[query], n_results=LIMIT, include=[])["ids"][0]
    ]


def lance(vectors: Any, folder: Path) -> Search:
    import lancedb  # type: ignore[import-not-found]
    import pyarrow  # type: ignore[import-not-found]

    flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
    table = lancedb.connect(str(folder)).create_table(
        "memories", pyarrow.table({"id": pyarrow.array(range(len(vectors))), "vector": flat})
    )
    return lambda query: [
        row["id"]
        for row in table.search(query)
        .distance_type("cosine")
        .select(["id"])
        .limit(LIMIT)
        .to_arrow()
        .to_pylist()
    ]


def sqlite(vectors: Any, folder: Path) -> Search:
    import apsw  # type: ignore[import-not-found]  # many builds of Python's own sqlite3 load no extensions
    import sqlite_vec  # type: ignore[import-not-found]

    base = apsw.Connection(":memory:")
    base.enable_load_extension(True)
    base.load_extension(sqlite_vec.loadable_path())
    base.execute(
        f"CREATE VIRTUAL TABLE memories USING vec0(vector float[{vectors.shape[1]}] distance_metric=cosine)"
    )
    with base:  # one transaction
        base.executemany(
            "INSERT INTO memories(rowid, vector) VALUES (?, ?)",
            ((row, vector.tobytes()) for row, vector in enumerate(vectors)),
        )
    statement = "SELECT rowid FROM memories WHERE vector MATCH ? AND k = ? ORDER BY distance"
    return lambda query: [row for (row,) in base.execute(statement, (query.tobytes(), LIMIT))]


STORES = {"qdrant-client": qdrant, "chroma": chroma, "lancedb": lance, "sqlite-vec": sqlite}


def main() -> None:
    name, vectors_path, folder = sys.argv[1:]
    with np.load(vectors_path) as file:
        vectors, queries = file["vectors"], file["queries"]
    search = STORES[name](vectors, Path(folder))
    ids = [search(query) for query in queries]
    seconds = []
    for _ in range(ROUNDS):
        for query in queries:
            begin = time.perf_counter()
            search(query)
            seconds.append(time.perf_counter() - begin)
    print(json.dumps({"ids": ids, "seconds": seconds}))


if __name__ == "__main__":
    main()
