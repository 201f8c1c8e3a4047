"""One agent process of `precall bench sessions`: many sessions on one client, at a real pace.

    python -P -m precall.bench.sessions_worker JOB.json ANSWER.json

Tells `opened` on its output once every session is open, and begins to speak at the line that it then reads;
tells `spoken` when it has, and keeps its sessions till the next line, so that the server is measured with
them.
"""

import asyncio
import json
import os
import random
import sys
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from precall.bench.known_vectors import KnownVectors
from precall.bench.server_process import resident_bytes
from precall.client import AsyncClient, AsyncSession, ClientEvent, PrecallError, PushApplied

READY_SECONDS: Final = 300.0
_RESULTS: Final = 10


@dataclass(frozen=True, slots=True)
class Job:
    """``scopes``: a session each. ``texts``: what is said. ``write_every``: a session's turns to a write.
    ``vectors``: a file of `KnownVectors` with the texts' vectors; empty: the process embeds them.
    """

    target: str
    api_key: str
    scopes: list[dict[str, str]]
    texts: list[str]
    seconds: float
    turn_seconds: float
    write_every: int
    seed: int
    vectors: str = ""


@dataclass(slots=True)
class Answer:
    """Milliseconds of reads, writes, and from turns to the first and to the last of their pushes; turns
    taken, and those that were due; failures by name; bytes in memory; processor seconds while they spoke.
    """

    reads_ms: list[float] = field(default_factory=list)
    writes_ms: list[float] = field(default_factory=list)
    leads_ms: list[float] = field(default_factory=list)
    turns: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    resident_before: int = 0
    resident_after: int = 0
    last_leads_ms: list[float] = field(default_factory=list)
    due: int = 0
    decisions: dict[str, int] = field(default_factory=dict)
    processor_seconds: float = 0.0

    def count_error(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1


class Leads:
    """Hears of pushes, and keeps how long after its session's latest turn each came."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._last: dict[str, float] = {}  # session -> of the turn that was said last

    def said(self, session_id: str) -> None:
        """A new turn: whatever comes from here on is its own."""
        self.close(session_id)
        self._last[session_id] = 0.0

    def close(self, session_id: str) -> None:
        if last := self._last.pop(session_id, 0.0):
            self._answer.last_leads_ms.append(last)

    def __call__(self, event: ClientEvent) -> None:
        if not isinstance(event, PushApplied) or event.lead_seconds is None:
            return
        if event.session_id in self._last:
            lead = 1000 * event.lead_seconds
            if not self._last[event.session_id]:
                self._answer.leads_ms.append(lead)
            self._last[event.session_id] = lead


async def work(job: Job) -> Answer:
    answer = Answer()
    leads = Leads(answer)
    async with AsyncExitStack() as stack:
        encoder = KnownVectors.load(Path(job.vectors), job.texts) if job.vectors else None
        client = await stack.enter_async_context(
            AsyncClient(job.target, api_key=job.api_key, encoder=encoder, hooks=[leads])
        )
        first = await stack.enter_async_context(client.session(job.scopes[0], uuid.uuid4()))
        await first.ready(READY_SECONDS)  # the encoder is loaded once a process, whatever the sessions
        answer.resident_before = resident_bytes(os.getpid())
        sessions = [first]
        for scope in job.scopes[1:]:
            sessions.append(await stack.enter_async_context(client.session(scope, uuid.uuid4())))
        ready = await asyncio.gather(*(session.ready(READY_SECONDS) for session in sessions))
        for _ in range(ready.count(False)):
            answer.count_error("session not ready")
        print("opened", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began = time.process_time()
        speakers = [_speak(session, job, number, answer, leads) for number, session in enumerate(sessions)]
        await asyncio.gather(*speakers)
        answer.processor_seconds = time.process_time() - began
        answer.resident_after = resident_bytes(os.getpid())
        print("spoken", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    return answer


async def _speak(session: AsyncSession, job: Job, number: int, answer: Answer, leads: Leads) -> None:
    """A turn every ``turn_seconds``, each session at moments of its own. One for whose moment the one before
    was not over yet is due and not taken.
    """
    chance = random.Random((job.seed, number).__repr__())
    first = time.perf_counter() + chance.random() * job.turn_seconds
    for turn in range(1, 1 + int(job.seconds / job.turn_seconds)):
        answer.due += 1
        wait = first + (turn - 1) * job.turn_seconds - time.perf_counter()
        if wait < -job.turn_seconds:
            continue
        await asyncio.sleep(max(0.0, wait))
        try:
            leads.said(session.session_id)
            writes = (turn + number) % job.write_every == 0  # never all sessions in one round
            await _turn(session, chance.choice(job.texts), answer, writes=writes)
        except PrecallError as error:
            answer.count_error(error.reason)
    await asyncio.sleep(max(0.0, first + job.seconds - time.perf_counter()))
    leads.close(session.session_id)


async def _turn(session: AsyncSession, text: str, answer: Answer, *, writes: bool) -> None:
    answer.turns += 1
    session.observe("user", text)
    begun = time.perf_counter()
    read = await session.read(text, limit=_RESULTS)
    answer.reads_ms.append(1000 * (time.perf_counter() - begun))
    source = f"{read.source.value}, {read.status.value}"
    answer.sources[source] = answer.sources.get(source, 0) + 1
    answer.decisions[read.decision.value] = answer.decisions.get(read.decision.value, 0) + 1
    if writes:
        begun = time.perf_counter()
        await session.remember(f"{text} ({uuid.uuid4()})", truncate=True)
        answer.writes_ms.append(1000 * (time.perf_counter() - begun))


def main() -> None:
    job_path, answer_path = map(Path, sys.argv[1:])
    fields: dict[str, Any] = json.loads(job_path.read_text())
    answer = asyncio.run(work(Job(**fields)))
    answer_path.write_text(json.dumps(asdict(answer)))


if __name__ == "__main__":
    main()
