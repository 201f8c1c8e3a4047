"""`precall bench sessions`: many conversations at once on one server, each at the pace of people.

A few agent processes hold them; every turn is observed and read, and some are written. The rungs are left
to prediction (``--complete-below 0``), so that every turn causes a push; with ``--whole`` they are held so,
as small rungs are. Everything shares one machine here, so the agents' own work slows the server, as it would
not where it is served: with ``--agents-elsewhere`` they know the vectors of what they say, and embed nothing.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from precall.bench.known_vectors import KnownVectors
from precall.bench.locomo import load_conversations
from precall.bench.machine import describe_machine
from precall.bench.quality import VECTORS_FOLDER
from precall.bench.quality_vectors import VectorCache
from precall.bench.results import append_results
from precall.bench.server_process import ServerProcess
from precall.bench.sessions_report import SessionsReport, SessionsRun, reported
from precall.bench.sessions_worker import Answer, Job
from precall.client import AsyncClient, ClientOptions, LocalEncoding, MemoryDraft
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import load_default_encoder

TENANT: Final = "bench"
_OPEN_SECONDS: Final = 600.0
_GRACE_SECONDS: Final = 120.0
_WRITE_BATCH: Final = 64
_TEXTS: Final = 1_200
_SETTLE_SECONDS: Final = 1.0
_SETTLE_TRIES: Final = 20
_SETTLED_BYTES: Final = 1 << 20


class SessionsFailed(RuntimeError):
    """An agent process ended badly; the message holds its last words."""


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
    console.print(report.table())
    if json_path is not None:
        facts = asdict(report) | {"machine": describe_machine()}
        json_path.write_text(json.dumps(facts, indent=2) + "\n")
    if csv_path is not None:
        append_results(csv_path, report.measurements())
    return report


async def measure(run: SessionsRun) -> SessionsReport:
    conversations = load_conversations(run.data)
    texts = [turn.text for conversation in conversations for turn in conversation.turns if turn.text.strip()]
    texts = texts[:_TEXTS]
    folder = Path(tempfile.mkdtemp(prefix="precall-bench-"))
    arguments = ("--log-level", "warning", *(() if run.whole else ("--complete-below", "0")))
    try:
        async with ServerProcess(folder, arguments=arguments) as server:
            key = await server.make_tenant(TENANT)
            await _write(server, key, run, texts)
            vectors = _save_vectors(folder, texts) if run.agents_elsewhere else None
            before = await _settled_bytes(server)
            agents = [
                await _Agent.start(folder, number, _job(run, number, server, key, texts, vectors))
                for number in range(run.agents)
            ]
            try:
                async with asyncio.timeout(_OPEN_SECONDS):
                    await asyncio.gather(*(agent.opened() for agent in agents))
                began = server.processor_seconds
                async with asyncio.timeout(run.seconds + _GRACE_SECONDS):
                    await asyncio.gather(*(agent.speak() for agent in agents))
                    spent = server.processor_seconds - began
                    held = server.resident_bytes - before  # while all sessions are open
                    answers = await asyncio.gather(*(agent.answer() for agent in agents))
            finally:
                for agent in agents:
                    await agent.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return reported(run, answers, held, spent)


async def _settled_bytes(server: ServerProcess) -> int:
    """What the server has in memory once what was written has been dealt with."""
    settled = server.resident_bytes
    for _ in range(_SETTLE_TRIES):
        await asyncio.sleep(_SETTLE_SECONDS)
        now = server.resident_bytes
        if abs(now - settled) < _SETTLED_BYTES:
            return now
        settled = now
    return settled


def _save_vectors(folder: Path, texts: Sequence[str]) -> Path:
    """Of what will be said, as the server's model has it."""
    encoder = load_default_encoder().encoder
    path = folder / "vectors.npz"
    vectors = VectorCache(encoder, VECTORS_FOLDER).vectors(texts, TextRole.QUERY)
    KnownVectors.save(path, vectors, encoder.card.fingerprint)
    return path


def _job(
    run: SessionsRun, number: int, server: ServerProcess, key: str, texts: Sequence[str], vectors: Path | None
) -> Job:
    return Job(
        target=server.address.target,
        api_key=key,
        scopes=[run.scope(session) for session in range(number, run.sessions, run.agents)],
        texts=list(texts),
        seconds=run.seconds,
        turn_seconds=run.turn_seconds,
        write_every=run.write_every,
        seed=number,
        vectors="" if vectors is None else str(vectors),
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
        await self._told(b"opened")

    async def speak(self) -> None:
        """Let it speak, and return when it has; its sessions stay open."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._told(b"spoken")

    async def _told(self, word: bytes) -> None:
        assert self._process.stdout is not None
        if (await self._process.stdout.readline()).strip() != word:
            raise SessionsFailed(f"an agent process ended: {self._last_words()}")

    async def answer(self) -> Answer:
        """Let it close its sessions and end. After `speak`."""
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
