"""A flood of writes beside a calm conversation: who waits, who is refused, and what it costs the server."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import grpc

from precall.bench.embed_caller import Answer, EmbedCaller, embed_request
from precall.bench.embed_load import Arrival, offer, percentile_ms, steady
from precall.bench.embed_report import Finding, Target
from precall.bench.embed_texts import EmbedTexts
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole

PART: Final = "classes"
TO_IDLE: Final = Target(3.0, at_least=False)
NONE: Final = Target(0.0, at_least=False)
SOME: Final = Target(1.0, at_least=True)
MEMORY_GROWTH: Final = Target(0.05, at_least=False)

FLOOD: Final = 20.0
"""Times the capacity that was measured just before."""
TEXTS_A_REQUEST: Final = 32
QUERIES_A_SECOND: Final = 10.0
PREFETCHES_A_SECOND: Final = 5.0
TIMEOUT_SECONDS: Final = 120.0
"""Well over the time in which a full queue drains: a call that reaches it has hung."""
CAPACITY_REQUESTS: Final = 16
_CONCURRENCY: Final = 8
_WARM_UP: Final = 20
_SAMPLE_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Flooded:
    """How everybody's calls ended while the flood was on; ``resident`` bytes of the server meanwhile."""

    queries: Sequence[Answer]
    prefetches: Sequence[Answer]
    flood: Sequence[Answer]
    resident: Sequence[int]


async def measure_classes(
    caller: EmbedCaller, server_pid: int, texts: EmbedTexts, *, seconds: float
) -> list[Finding]:
    """Idle for ``seconds``, then as long with the flood, then the flood's end waited for."""
    requests = FloodRequests(texts.turns)
    capacity = await _capacity(caller, requests)
    queries = steady(_lone_bodies(texts.questions, WorkClass.CONVERSATION), QUERIES_A_SECOND, seconds)
    prefetches = steady(_lone_bodies(texts.questions, WorkClass.PREFETCH), PREFETCHES_A_SECOND, seconds)
    await _offered(caller, queries[:_WARM_UP])
    idle = await _offered(caller, queries)
    flood_rate = FLOOD * capacity / TEXTS_A_REQUEST
    flood = steady(requests.make(round(flood_rate * seconds)), flood_rate, seconds, TEXTS_A_REQUEST)
    async with ResidentMemory(server_pid) as memory:
        flooding = asyncio.create_task(_offered(caller, flood))
        pressed, prefetched = await asyncio.gather(_offered(caller, queries), _offered(caller, prefetches))
    return _findings(capacity, idle, Flooded(pressed, prefetched, await flooding, memory.samples))


class FloodRequests:
    """Bodies of INGEST requests, no two texts of all of them alike: equal ones would be computed once."""

    def __init__(self, turns: Sequence[str]) -> None:
        self._turns = itertools.cycle(turns)
        self._numbers = itertools.count()

    def make(self, count: int) -> list[bytes]:
        return [
            embed_request(
                [f"{next(self._numbers)} {next(self._turns)}" for _ in range(TEXTS_A_REQUEST)],
                TextRole.DOCUMENT,
                WorkClass.INGEST,
            ).SerializeToString()
            for _ in range(count)
        ]


class ResidentMemory:
    """Samples what a process holds in memory, in bytes, until it is left. Linux only."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.samples: list[int] = []
        self._sampling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sampling = asyncio.create_task(self._sample())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._sampling is not None
        self._sampling.cancel()
        await asyncio.wait([self._sampling])

    async def _sample(self) -> None:
        while True:
            line = next(line for line in self._status.read_text().splitlines() if line.startswith("VmRSS:"))
            self.samples.append(int(line.split()[1]) * 1024)
            await asyncio.sleep(_SAMPLE_SECONDS)


async def _capacity(caller: EmbedCaller, requests: FloodRequests) -> float:
    """INGEST texts a second, from callers who always have a request under way."""
    waiting = requests.make(CAPACITY_REQUESTS)

    async def work() -> None:
        while waiting:
            body = waiting.pop()
            await caller.answer(body, TEXTS_A_REQUEST, due=time.perf_counter(), timeout=TIMEOUT_SECONDS)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_CONCURRENCY):
            group.create_task(work())
    return CAPACITY_REQUESTS * TEXTS_A_REQUEST / (time.perf_counter() - begin)


async def _offered(caller: EmbedCaller, arrivals: Sequence[Arrival]) -> list[Answer]:
    return await offer(
        arrivals,
        lambda arrival, due: caller.answer(arrival.body, arrival.texts, due=due, timeout=TIMEOUT_SECONDS),
    )


def _lone_bodies(questions: Sequence[str], work_class: WorkClass) -> list[bytes]:
    return [
        embed_request([question], TextRole.QUERY, work_class).SerializeToString() for question in questions
    ]


def _findings(capacity: float, idle: Sequence[Answer], flooded: Flooded) -> list[Finding]:
    calm, pressed = percentile_ms(idle, 95), percentile_ms(flooded.queries, 95)
    everybody = [*flooded.queries, *flooded.prefetches, *flooded.flood]
    refused = sum(each.code is grpc.StatusCode.RESOURCE_EXHAUSTED for each in flooded.flood)
    served = sum(each.texts for each in flooded.flood if each.is_ok)
    half = flooded.resident[len(flooded.resident) // 2 :]
    growth = max(half) / half[0] - 1.0
    failed = sum(not each.is_ok for each in flooded.queries)
    case = f"INGEST at {FLOOD:g} x capacity"
    return [
        Finding(PART, "idle", "INGEST capacity", capacity, "texts/s"),
        Finding(PART, "idle", "CONVERSATION p50", percentile_ms(idle, 50), "ms"),
        Finding(PART, "idle", "CONVERSATION p95", calm, "ms"),
        Finding(PART, case, "CONVERSATION p50", percentile_ms(flooded.queries, 50), "ms"),
        Finding(PART, case, "CONVERSATION p95", pressed, "ms", note=f"of {len(flooded.queries)}"),
        Finding(PART, case, "CONVERSATION p95 to idle", pressed / calm, "times", target=TO_IDLE),
        Finding(PART, case, "CONVERSATION failed", failed, "calls", target=NONE),
        Finding(
            PART, case, "PREFETCH served", sum(each.is_ok for each in flooded.prefetches), "calls",
            target=SOME,
            note=f"of {len(flooded.prefetches)}, p95 {percentile_ms(flooded.prefetches, 95):.0f} ms",
        ),
        Finding(
            PART, case, "INGEST served", served, "texts", target=SOME,
            note=f"{refused} of {len(flooded.flood)} requests refused",
        ),
        Finding(
            PART, case, "untyped errors", sum(not each.is_typed for each in everybody), "calls", target=NONE,
            note="a refusal carries ErrorInfo, RetryInfo and the pushback trailer",
        ),
        Finding(
            PART, case, "hung", sum(each.code is grpc.StatusCode.DEADLINE_EXCEEDED for each in everybody),
            "calls", target=NONE, note=f"not answered within {TIMEOUT_SECONDS:g} s",
        ),
        Finding(
            PART, case, "memory growth", growth, "share", target=MEMORY_GROWTH,
            note=f"of {half[0] / 2**20:.0f} MiB, in the second half of the flood",
        ),
    ]  # fmt: skip
