"""Many tenants on one server: how soon it starts, how soon a cold one answers, what stays in memory.

A tenant of each size is written by the product; the others are copies of its file under other names, with the
tenant's name inside changed, as a restored backup has it. A server cannot tell them from written ones.

Start: in a new process, from the folder to an engine that takes calls, and from the command to a server that
answers, the model's loading included; beside the same on an empty folder.
Cold search: nothing of the tenant is in this process or in the system's page cache; its file is opened, the
rung read, the search answered, one after another.
Random reads: tenants drawn evenly, ten tasks at a time, under a budget; the process's memory beside it.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from precall.bench.results import Measurement, append_results, print_measurements
from precall.bench.server_process import ServerProcess
from precall.bench.table_encoder import TABLE_CARD, TableEncoder
from precall.bench.write_rate import DIMENSION, RUNG, given_vector, make_memory, make_vectors
from precall.engine.engine import Engine, EngineSettings
from precall.engine.memory.database import connect
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.registry import FILE_SUFFIX, TENANTS_FOLDER
from precall.engine.memory.tenant_settings import TenantSettings
from precall.engine.residency import MEGABYTE, ResidencySettings
from precall.engine.retrieval.query import Query
from precall.scoring.terms import analyze

_BATCH: Final = 500
_AT_ONCE: Final = 10


@dataclass(frozen=True, slots=True)
class ResidencyRun:
    """``large``: tenants of ``large_memories`` each, searched cold, one by one. ``reads``: random ones among
    the small tenants.
    """

    tenants: int = 10_000
    memories: int = 50
    large: int = 50
    large_memories: int = 1_000
    reads: int = 20_000
    budget_mb: int = 64
    open_files: int = 200


@dataclass(frozen=True, slots=True)
class ResidencyFigures:
    """What a process measured of itself. Seconds, bytes, counts."""

    start_seconds: float
    cold_seconds: Sequence[float]
    cold_processor_seconds: Sequence[float]
    reads_a_second: float
    loads: int
    evictions: int
    resident_bytes: int
    rss_growth: int
    most_open_files: int


class _WideEncoder(TableEncoder):
    """Nobody asks it for a vector."""

    card = replace(TABLE_CARD, dimension=DIMENSION)


class _Counter:
    """A `ResidencyObserver`."""

    loads = 0
    evictions = 0

    def partition_loaded(self, seconds: float) -> None:
        self.loads += 1

    def partition_evicted(self) -> None:
        self.evictions += 1

    def partition_oversized(self) -> None: ...


def _engine(folder: Path, run: ResidencyRun, counter: _Counter) -> Engine:
    settings = EngineSettings(
        folder, residency=ResidencySettings(run.budget_mb * MEGABYTE, open_files=run.open_files)
    )
    return Engine(settings, _WideEncoder(["nothing"]), residency_observer=counter)


def small(number: int) -> str:
    return f"small-{number}"


def large(number: int) -> str:
    return f"large-{number}"


async def make_tenants(folder: Path, run: ResidencyRun) -> None:
    """Write one of each kind, and copy them."""
    engine = _engine(folder, run, _Counter())
    await engine.start()
    vectors = make_vectors(1_000)
    for name, memories in ((small, run.memories), (large, run.large_memories)):
        tenant = await engine.create_tenant(name(0), Ladder())
        for begin in range(0, memories, _BATCH):
            numbers = range(begin, min(begin + _BATCH, memories))
            given = [given_vector(vectors, number, _WideEncoder.card.fingerprint) for number in numbers]
            await tenant.write(list(map(make_memory, numbers)), given, request_id=None, truncate=False)
    await engine.close()
    for name, count in ((small, run.tenants), (large, run.large)):
        _copy(folder, name, count)
    os.sync()


def _copy(folder: Path, name: Callable[[int], str], count: int) -> None:
    template = folder / f"{name(0)}{FILE_SUFFIX}"
    for number in range(1, count):
        path = folder / f"{name(number)}{FILE_SUFFIX}"
        shutil.copyfile(template, path)
        path.chmod(0o600)
        connection = connect(path)
        connection.execute("PRAGMA synchronous = OFF")  # all of them are brought to the disk at the end
        TenantSettings.read(connection, name=name(0)).rename(connection, name(number))
        connection.close()


async def measure_process(folder: Path, run: ResidencyRun) -> ResidencyFigures:
    """To be called in a process that has done nothing else."""
    counter = _Counter()
    begin = time.perf_counter()
    engine = _engine(folder, run, counter)
    await engine.start()
    start = time.perf_counter() - begin
    vectors = make_vectors(100)

    async def read(tenant_id: str, number: int) -> None:
        tenant = await engine.tenant(tenant_id)
        words = analyze(make_memory(number).text)
        query = Query(vectors[number % len(vectors)], words, engine.clock.wall(), limit=10)
        found = await tenant.search(RUNG, query)
        if not found.hits:
            raise RuntimeError(f"tenant {tenant_id} answered nothing")

    cold, cold_processor = [], []
    for number in range(run.large):
        _drop_from_page_cache(folder / f"{large(number)}{FILE_SUFFIX}")
        begin, begin_processor = time.perf_counter(), time.process_time()
        await read(large(number), number)
        cold.append(time.perf_counter() - begin)
        cold_processor.append(time.process_time() - begin_processor)

    before = _rss()
    order = np.random.default_rng(3).integers(0, run.tenants, run.reads).tolist()
    most_open = 0

    async def in_turn(numbers: Sequence[int]) -> None:
        nonlocal most_open
        for number in numbers:
            await read(small(number), number)
            most_open = max(most_open, engine.open_tenants)

    begin = time.perf_counter()
    await asyncio.gather(*(in_turn(order[part::_AT_ONCE]) for part in range(_AT_ONCE)))
    seconds = time.perf_counter() - begin
    growth = _rss() - before
    engine.residency.check_integrity()
    figures = ResidencyFigures(
        start,
        cold,
        cold_processor,
        run.reads / seconds,
        counter.loads,
        counter.evictions,
        engine.residency.nbytes,
        growth,
        most_open,
    )
    await engine.close()
    return figures


def _drop_from_page_cache(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def server_start(folder: Path) -> float:
    """Seconds from the command to the first answer; the data folder is ``folder / "data"``."""
    begin = time.perf_counter()
    async with ServerProcess(folder):
        return time.perf_counter() - begin


def measure(folder: Path, run: ResidencyRun) -> list[Measurement]:
    full, empty = folder / "full", folder / "empty"
    tenants = full / "data" / TENANTS_FOLDER
    begin = time.perf_counter()
    asyncio.run(make_tenants(tenants, run))
    print(f"{run.tenants + run.large} tenants made in {time.perf_counter() - begin:.0f} s")
    command = [sys.executable, "-P", "-m", "precall.bench.residency"]
    process = subprocess.run(
        [*command, "--process", str(tenants), json.dumps(asdict(run))],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures = ResidencyFigures(**json.loads(process.stdout))
    asyncio.run(server_start(empty))  # the first start on a machine exports the model
    return measurements_of(run, figures, asyncio.run(server_start(full)), asyncio.run(server_start(empty)))


def measurements_of(
    run: ResidencyRun, figures: ResidencyFigures, server_seconds: float, empty_seconds: float
) -> list[Measurement]:
    start = f"{run.tenants + run.large} tenants"
    cold = f"{run.large_memories} memories x {DIMENSION}"
    reads = f"{run.tenants} tenants x {run.memories}"

    def row(case: str, metric: str, value: float, unit: str) -> Measurement:
        return Measurement("residency", case, metric, value, unit)

    ratio = empty_seconds / server_seconds
    return [
        row(start, "engine start", figures.start_seconds, "s"),
        Measurement("residency", start, "server start, model in", server_seconds, "s", "no tenants", ratio),
        row(cold, "cold search p50", float(np.percentile(figures.cold_seconds, 50)) * 1e3, "ms"),
        row(cold, "cold search p99", float(np.percentile(figures.cold_seconds, 99)) * 1e3, "ms"),
        row(
            cold,
            "cold search, processor p50",
            float(np.percentile(figures.cold_processor_seconds, 50)) * 1e3,
            "ms",
        ),
        row(reads, "random reads a second", figures.reads_a_second, "1/s"),
        row(reads, "loads a read", figures.loads / (figures.loads + run.reads), "share"),
        row(reads, "evictions", figures.evictions, ""),
        row(reads, "budget", run.budget_mb, "MB"),
        row(reads, "in memory, estimated", figures.resident_bytes / MEGABYTE, "MB"),
        row(reads, "process grew by", figures.rss_growth / MEGABYTE, "MB"),
        row(reads, "files open at most", figures.most_open_files, ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: a temporary one)")
    for name, default in asdict(ResidencyRun()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--process", nargs=2, metavar=("FOLDER", "RUN"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process is not None:
        folder, run = arguments.process
        figures = asyncio.run(measure_process(Path(folder), ResidencyRun(**json.loads(run))))
        print(json.dumps(asdict(figures)))
        return
    asked = ResidencyRun(**{name: getattr(arguments, name) for name in asdict(ResidencyRun())})
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measurements = measure(Path(folder), asked)
    print_measurements(measurements)
    if arguments.csv:
        append_results(arguments.csv, measurements)


if __name__ == "__main__":
    main()
