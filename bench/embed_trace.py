"""Latency under the arrivals of a production trace, at shares of the capacity that was just measured."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from precall.bench.azure_trace import TraceArrival, cut_slice, paced, scaled_tokens
from precall.bench.embed_caller import Answer, EmbedCaller, embed_request
from precall.bench.embed_load import Arrival, offer, percentile_ms
from precall.bench.embed_report import Finding
from precall.bench.embed_texts import made_up_text
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole

PART: Final = "trace"
SHARES: Final = (0.3, 0.6, 0.9)
TOKENS_DIVISOR: Final = 16.0
"""The trace's contexts have a median of 1,020 tokens and a 99th percentile of 4,142: a sixteenth of it is
what a model of 256 tokens takes nearly whole."""
FIRST: Final = 4_000
"""Where the slice begins: in the trace's middle, not at its quiet start."""
CONCURRENCY: Final = 16
TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class TraceLoad:
    """The slice, with the body of each of its requests."""

    arrivals: Sequence[TraceArrival]
    bodies: Sequence[bytes]


def trace_load(trace: Sequence[TraceArrival], *, requests: int, max_tokens: int, seed: int = 7) -> TraceLoad:
    """Texts of the slice's own lengths in tokens, all different; their words mean nothing."""
    chance = random.Random(seed)
    cut = cut_slice(trace, min(FIRST, len(trace) - requests), requests)
    bodies = [
        embed_request(
            [made_up_text(chance, scaled_tokens(arrival, TOKENS_DIVISOR, max_tokens) - 2)],
            TextRole.QUERY,
            WorkClass.CONVERSATION,
        ).SerializeToString()
        for arrival in cut
    ]
    return TraceLoad(cut, bodies)


async def measure_trace(caller: EmbedCaller, load: TraceLoad) -> list[Finding]:
    """Capacity first, by ``CONCURRENCY`` callers who always have a request under way, then the shares."""
    await _closed_loop(caller, load.bodies[: CONCURRENCY * 2])
    capacity = await _closed_loop(caller, load.bodies)
    case = f"{len(load.bodies)} requests"
    findings = [
        Finding(PART, case, "capacity", capacity, "requests/s", note=f"{CONCURRENCY} always under way")
    ]
    for share in SHARES:
        timed = paced(load.arrivals, share * capacity)
        answers = await offer(
            [Arrival(each.seconds, body) for each, body in zip(timed, load.bodies, strict=True)],
            lambda arrival, due: caller.answer(arrival.body, 1, due=due, timeout=TIMEOUT_SECONDS),
        )
        findings += _at_share(share, answers)
    return findings


def _at_share(share: float, answers: Sequence[Answer]) -> list[Finding]:
    case = f"{share:.0%} of capacity"
    failed = sum(not answer.is_ok for answer in answers)
    note = f"from when a request was due; {failed} of {len(answers)} failed"
    return [
        Finding(
            PART, case, f"p{percent}", percentile_ms(answers, percent), "ms", note=note if not row else ""
        )
        for row, percent in enumerate((50, 95, 99))
    ]


async def _closed_loop(caller: EmbedCaller, bodies: Sequence[bytes]) -> float:
    """Requests a second."""
    waiting = list(reversed(bodies))

    async def work() -> None:
        while waiting:
            await caller.answer(waiting.pop(), 1, due=time.perf_counter(), timeout=TIMEOUT_SECONDS)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())
    return len(bodies) / (time.perf_counter() - begin)
