"""`precall bench sessions`: many conversations at once on one server, each at the pace of people.

A few agent processes hold them; every turn is observed and read, and some are written. The rungs are left to
prediction (``--complete-below 0``), so that every turn causes a push. Everything shares one machine here, so
the agents' own work slows the server, as it would not where it is served.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from precall.bench.locomo import load_conversations
from precall.bench.machine import describe_machine
from precall.bench.results import Measurement, append_results
from precall.bench.server_process import ServerProcess
from precall.bench.sessions_worker import Answer, Job
from precall.client import AsyncClient, ClientOptions, LocalEncoding, MemoryDraft

TENANT: Final = "bench"
_OPEN_SECONDS: Final = 600.0
_GRACE_SECONDS: Final = 120.0
_WRITE_BATCH: Final = 64


class SessionsFailed(RuntimeError):
    """An agent process ended badly; the message holds its last words."""


@dataclass(frozen=True, slots=True)
class SessionsRun:
    """``users``: the sessions are theirs in turns, each with ``memories`` of its own, of ``customers``.

    ``write_every``: turns of a session to one write. ``complete_below``: as `precall serve` takes it.
    """

    data: Path
    sessions: int = 1_000
    processes: int = 3
    seconds: float = 60.0
    turn_seconds: float = 5.0
    users: int = 100
    customers: int = 4
    memories: int = 20
    write_every: int = 12
    complete_below: int = 0

    def scope(self, session: int) -> dict[str, str]:
        user = session % self.users
        return {"customer": f"customer {user % self.customers}", "user": f"user {user}"}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds; nan where nothing was measured."""

    count: int
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Percentiles":
        if not values:
            return cls(0, float("nan"), float("nan"), float("nan"))
        return cls(len(values), *np.percentile(values, (50, 95, 99)).tolist())


@dataclass(frozen=True, slots=True)
class SessionsReport:
    """``lead``: from a turn to its push stored in the agent. Bytes are of one session, beyond what a process
    has without any. ``errors``: by reason.
    """

    sessions: int
    turn_seconds: float
    turns: int
    lead: Percentiles
    reads: Percentiles
    writes: Percentiles
    sources: Mapping[str, int]
    errors: Mapping[str, int]
    server_bytes: float
    client_bytes: float

    def measurements(self) -> list[Measurement]:
        case = f"{self.sessions} sessions, a turn every {self.turn_seconds:g} s"
        rows = [
            Measurement("sessions", case, f"{name} {percentile}", getattr(times, percentile), "ms")
            for name, times in (("lead", self.lead), ("read", self.reads), ("write", self.writes))
            for percentile in ("p50", "p95", "p99")
        ]
        return [
            *rows,
            Measurement("sessions", case, "server a session", self.server_bytes, "bytes"),
            Measurement("sessions", case, "client a session", self.client_bytes, "bytes"),
            Measurement("sessions", case, "errors", sum(self.errors.values()), "calls"),
        ]


def main(
    run: SessionsRun,
    *,
    json_path: Path | None = None,
    csv_path: Path | None = None,
    console: Console | None = None,
) -> SessionsReport:
    """Measure, print, write what was asked for. Raises SessionsFailed, ServerDied, LocomoFormatError."""
    console = console or Console()
    report = asyncio.run(measure(run))
    console.print(_table(report))
    if json_path is not None:
        facts = asdict(report) | {"machine": describe_machine()}
        json_path.write_text(json.dumps(facts, indent=2) + "\n")
    if csv_path is not None:
        append_results(csv_path, report.measurements())
    return report


async def measure(run: SessionsRun) -> SessionsReport:
    texts = [turn.text for conversation in load_conversations(run.data) for turn in conversation.turns]
    folder = Path(tempfile.mkdtemp(prefix="precall-bench-"))
    arguments = ("--complete-below", str(run.complete_below), "--log-level", "warning")
    try:
        async with ServerProcess(folder, arguments=arguments) as server:
            key = await server.make_tenant(TENANT)
            await _write(server, key, run, texts)
            before = server.resident_bytes
            agents = [
                await _Agent.start(folder, number, _job(run, number, server, key, texts))
                for number in range(run.processes)
            ]
            try:
                async with asyncio.timeout(_OPEN_SECONDS):
                    await asyncio.gather(*(agent.opened() for agent in agents))
                async with asyncio.timeout(run.seconds + _GRACE_SECONDS):
                    answers = await asyncio.gather(*(agent.answer() for agent in agents))
            finally:
                for agent in agents:
                    await agent.end()
            held = server.resident_bytes - before
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _report(run, answers, held)


def _job(run: SessionsRun, number: int, server: ServerProcess, key: str, texts: Sequence[str]) -> Job:
    return Job(
        target=server.address.target,
        api_key=key,
        scopes=[run.scope(session) for session in range(number, run.sessions, run.processes)],
        texts=list(texts),
        seconds=run.seconds,
        turn_seconds=run.turn_seconds,
        write_every=run.write_every,
        seed=number,
    )


async def _write(server: ServerProcess, key: str, run: SessionsRun, texts: Sequence[str]) -> None:
    """Each user's memories, and as many on the customers' rungs."""
    options = ClientOptions(local_encoding=LocalEncoding.OFF)
    users = [run.scope(user) for user in range(run.users)]
    customers = [{"customer": f"customer {number}"} for number in range(run.customers)]
    async with AsyncClient(server.address.target, api_key=key, options=options) as client:
        for number, scope in enumerate([*users, *customers]):
            first = number * run.memories
            said = [texts[place % len(texts)] for place in range(first, first + run.memories)]
            for start in range(0, len(said), _WRITE_BATCH):
                drafts = [MemoryDraft(text=text) for text in said[start : start + _WRITE_BATCH]]
                await client.memories.write(scope, drafts, truncate=True)


class _Agent:
    """A process of `precall.bench.sessions_worker`."""

    def __init__(self, process: asyncio.subprocess.Process, answer_path: Path, log: Path) -> None:
        self._process = process
        self._answer_path = answer_path
        self._log = log

    @classmethod
    async def start(cls, folder: Path, number: int, job: Job) -> "_Agent":
        job_path, answer_path = folder / f"job{number}.json", folder / f"answer{number}.json"
        job_path.write_text(json.dumps(asdict(job)))
        log = folder / f"agent{number}.log"
        with log.open("wb") as messages:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "precall.bench.sessions_worker"),
                *(str(job_path), str(answer_path)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=messages,
                env=os.environ | {"PYTHONSAFEPATH": "1"},
            )
        return cls(process, answer_path, log)

    async def opened(self) -> None:
        assert self._process.stdout is not None
        if (await self._process.stdout.readline()).strip() != b"opened":
            raise SessionsFailed(f"an agent process ended: {self._last_words()}")

    async def answer(self) -> Answer:
        """Let it speak, and return when it has."""
        await self._process.communicate(b"\n")
        if self._process.returncode:
            raise SessionsFailed(f"an agent process ended: {self._last_words()}")
        return Answer(**json.loads(self._answer_path.read_text()))

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]


def _report(run: SessionsRun, answers: Sequence[Answer], server_bytes: int) -> SessionsReport:
    sources: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for answer in answers:
        sources.update(answer.sources)
        errors.update(answer.errors)
    client_bytes = sum(answer.resident_after - answer.resident_before for answer in answers)
    return SessionsReport(
        run.sessions,
        run.turn_seconds,
        sum(answer.turns for answer in answers),
        Percentiles.of([each for answer in answers for each in answer.leads_ms]),
        Percentiles.of([each for answer in answers for each in answer.reads_ms]),
        Percentiles.of([each for answer in answers for each in answer.writes_ms]),
        dict(sources),
        dict(errors),
        server_bytes / run.sessions,
        client_bytes / run.sessions,
    )


def _table(report: SessionsReport) -> Table:
    title = f"{report.sessions} sessions, a turn every {report.turn_seconds:g} s each: {report.turns} turns"
    table = Table(title=title, title_justify="left")
    for head in ("measure", "count", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(head, justify="left" if head == "measure" else "right")
    named = (("turn to push", report.lead), ("read", report.reads), ("write", report.writes))
    for name, times in named:
        table.add_row(name, str(times.count), f"{times.p50:.1f}", f"{times.p95:.1f}", f"{times.p99:.1f}")
    for name, size in (("server", report.server_bytes), ("agent", report.client_bytes)):
        table.add_row(f"{name}, kB a session", f"{size / 1000:.0f}", "", "", "")
    for name, count in sorted([*report.sources.items(), *report.errors.items()]):
        table.add_row(name, str(count), "", "", "")
    return table
