"""Durable memories a second: one writer, many writers at once, and batches; beside SQLite without us.

    python -P -m precall.bench.write_rate --csv bench/results.csv

A memory has a given vector and a text of one sentence. Ours goes through `Tenant.write`: analysed, checked,
stored with history, vector and keyword weights, indexed, announced. The floor is bare sqlite3 under the same
PRAGMAs, a table of id, text and vector, one transaction a row or one a batch: what the disk lets anybody do.
"through gRPC" is a server process and a client on the same machine; "embedded" leaves the vectors to MiniLM.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.results import Measurement, append_results, print_measurements
from precall.bench.server_process import ServerProcess
from precall.client import ClientOptions
from precall.client.methods import WRITE_MEMORIES
from precall.client.transport import Transport
from precall.engine.encoding.choice import ModelChoice
from precall.engine.encoding.loading import load_encoder
from precall.engine.encoding.minilm import CARD
from precall.engine.engine import Engine, EngineSettings
from precall.engine.memory.database import connect
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory
from precall.engine.preparing import GivenVector
from precall.proto import common_pb2, memory_pb2
from precall.scoring.vectors import FLOAT16, to_bytes

DIMENSION: Final = 384
RUNG: Final = Rung(("acme", "dana"))
CALLERS: Final = 32
BATCH: Final = 100
"""Memories of a batch, ours and the floor's."""

SUBJECTS: Final = (
    "Dana",
    "Eli",
    "the office",
    "her doctor",
    "a neighbour",
    "the landlord",
    "Ravi",
    "the shop",
)
VERBS: Final = (
    "prefers",
    "moved to",
    "called about",
    "cancelled",
    "asked for",
    "wrote down",
    "paid for",
    "lost",
)
OBJECTS: Final = ("the window seat", "the train to Pune", "a new lamp", "the piano lesson", "an old invoice")


def make_memory(number: int) -> NewMemory:
    moment = datetime.fromtimestamp(1_770_000_000 + number, UTC)
    words = (group[number // step % len(group)] for group, step in ((SUBJECTS, 1), (VERBS, 8), (OBJECTS, 64)))
    return NewMemory(
        id=f"00000000-0000-4000-8000-{number:012d}",
        rung=RUNG,
        text=f"{' '.join(words)} on day {number % 365}",
        event_time=moment,
        said_time=moment,
    )


def make_vectors(count: int) -> NDArray[np.float32]:
    """Random unit vectors, shape ``(count, DIMENSION)``: what they mean costs nothing here."""
    rows = np.random.default_rng(7).standard_normal((count, DIMENSION)).astype(np.float32)
    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def given_vector(
    vectors: NDArray[np.float32], number: int, fingerprint: str = CARD.fingerprint
) -> GivenVector:
    """Of a memory of `make_memory`."""
    return GivenVector(vectors[number % len(vectors)], fingerprint)


class Writers:
    """Callers who write one by one, or batches; ``write`` takes the numbers of a write's memories."""

    def __init__(self, write: Callable[[Sequence[int]], Awaitable[object]]) -> None:
        self._write = write
        self._next = 0

    async def rate(self, memories: int, *, callers: int = 1, size: int = 1) -> float:
        """Memories a second: each caller sends its next write, of ``size``, when the one before is acked."""
        share = memories // (callers * size)
        begin = time.perf_counter()
        await asyncio.gather(*(self._in_turn(share, size) for _ in range(callers)))
        return share * callers * size / (time.perf_counter() - begin)

    async def _in_turn(self, writes: int, size: int) -> None:
        for _ in range(writes):
            numbers = range(self._next, self._next + size)
            self._next += size
            await self._write(numbers)


def bare_rate(path: Path, vectors: NDArray[np.float32], memories: int, *, rows: int) -> float:
    """Rows a second that SQLite commits, ``rows`` in a transaction."""
    connection = connect(path, create=True)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, text TEXT, vector BLOB) STRICT")
    half = vectors.astype(np.float16)
    begin = time.perf_counter()
    for start in range(0, memories, rows):
        connection.execute("BEGIN IMMEDIATE")
        for number in range(start, start + rows):
            _insert(connection, f"{rows}-{number}", half[number % len(half)])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - begin
    connection.close()
    return memories / seconds


def _insert(connection: sqlite3.Connection, identity: str, vector: NDArray[np.float16]) -> None:
    connection.execute("INSERT INTO bare VALUES (?, ?, ?)", (identity, identity * 4, vector.tobytes()))


@asynccontextmanager
async def tenant_writers(folder: Path, vectors: NDArray[np.float32] | None) -> AsyncIterator[Writers]:
    """Writers to a new tenant in this process, its rung loaded, so that a write pays for the index too.

    ``vectors`` None leaves them to the model.
    """
    loaded = load_encoder(ModelChoice())
    engine = Engine(EngineSettings(folder), loaded.encoder)
    await engine.start()
    try:
        tenant = await engine.create_tenant("t", Ladder())
        await tenant.partitions(RUNG)

        async def write(numbers: Sequence[int]) -> None:
            given = [None if vectors is None else given_vector(vectors, number) for number in numbers]
            memories = [make_memory(number) for number in numbers]
            await tenant.write(memories, given, request_id=None, truncate=False)

        yield Writers(write)
    finally:
        await engine.close()


@asynccontextmanager
async def remote_writers(folder: Path, vectors: NDArray[np.float32]) -> AsyncIterator[Writers]:
    """Writers to a new tenant of a server process, over one connection."""
    async with ServerProcess(folder) as server:
        key = await server.make_tenant("t")
        transport = Transport(server.address.target, api_key=key, options=ClientOptions())
        transport.open()
        try:

            async def write(numbers: Sequence[int]) -> None:
                inputs = [_memory_input(number, vectors[number % len(vectors)]) for number in numbers]
                request = memory_pb2.WriteMemoriesRequest(memories=inputs)
                await transport.call(WRITE_MEMORIES, request, deadline_seconds=60.0)

            yield Writers(write)
        finally:
            await transport.close()


def _memory_input(number: int, vector: NDArray[np.float32]) -> common_pb2.MemoryInput:
    memory = make_memory(number)
    message = common_pb2.MemoryInput(
        id=memory.id,
        scope=common_pb2.Scope(levels=Ladder().scope(memory.rung)),
        text=memory.text,
        vector=common_pb2.Vectors(
            data=to_bytes(vector, FLOAT16), count=1, dimension=DIMENSION, model_fingerprint=CARD.fingerprint
        ),
    )
    message.event_time.FromDatetime(memory.event_time)
    message.said_time.FromDatetime(memory.said_time)
    return message


async def measure(folder: Path, memories: int) -> list[Measurement]:
    """``memories`` for each figure whose writes share transactions, fewer where each waits for the disk."""
    vectors = make_vectors(1_000)
    floor_row = bare_rate(folder / "bare.db", vectors, memories // 4, rows=1)
    floor_batch = bare_rate(folder / "bare.db", vectors, memories, rows=BATCH)
    rows = [
        _row("floor", "bare sqlite3, a row a transaction", floor_row),
        _row("floor", f"bare sqlite3, {BATCH} rows a transaction", floor_batch),
    ]
    many = f"{CALLERS} writers"
    async with tenant_writers(folder / "given", vectors) as writers:
        await writers.rate(memories // 10, callers=CALLERS)  # warm
        rows.append(_row("Tenant.write", "one writer", await writers.rate(memories // 4), floor_row))
        rows.append(_row("Tenant.write", many, await writers.rate(memories, callers=CALLERS), floor_row))
        batches = await writers.rate(memories, size=BATCH)
        rows.append(_row("Tenant.write", f"batches of {BATCH}", batches, floor_batch, BATCH))
    async with tenant_writers(folder / "embedded", None) as writers:
        rate = await writers.rate(memories // 4, callers=CALLERS)
        rows.append(_row("Tenant.write, embedded", many, rate, floor_row))
    async with remote_writers(folder / "served", vectors) as writers:
        await writers.rate(memories // 10, callers=CALLERS)
        rows.append(_row("through gRPC", "one writer", await writers.rate(memories // 4), floor_row))
        rows.append(_row("through gRPC", many, await writers.rate(memories, callers=CALLERS), floor_row))
        batches = await writers.rate(memories, size=BATCH)
        rows.append(_row("through gRPC", f"batches of {BATCH}", batches, floor_batch, BATCH))
    return rows


def _row(case: str, who: str, rate: float, floor: float | None = None, rows: int = 1) -> Measurement:
    peer, ratio = ("", None) if floor is None else (f"bare sqlite3, {rows} a transaction", rate / floor)
    return Measurement("writes", case, f"{who}: durable", rate, "1/s", peer, ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    parser.add_argument("--memories", type=int, default=8_000, help="for a figure (default 8000)")
    parser.add_argument(
        "--folder", type=Path, help="on the disk to measure (default: the temporary folder's)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measurements = asyncio.run(measure(Path(folder), arguments.memories))
    print_measurements(measurements)
    if arguments.csv:
        append_results(arguments.csv, measurements)


if __name__ == "__main__":
    main()
