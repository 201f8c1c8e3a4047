"""Open loop: a call goes out when it is due, whether or not those before it were answered.

A caller that waits for answers sends less to a server that stumbles, and so measures the stumble once where
everybody who would have come meanwhile felt it. Here time counts from when a call was due.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from precall.bench.embed_caller import Answer


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request of ``texts`` texts, as bytes, due ``seconds`` after the start of the load."""

    seconds: float
    body: bytes
    texts: int = 1


async def offer(
    arrivals: Iterable[Arrival],
    call: Callable[[Arrival, float], Awaitable[Answer]],
    clock: Callable[[], float] = time.perf_counter,
) -> list[Answer]:
    """Begin ``call(arrival, due)`` for each as it falls due, and wait for all; ``due`` is on ``clock``.

    ``arrivals`` are in order of time, and ``call`` ends by itself.
    """
    begin = clock()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for arrival in arrivals:
            due = begin + arrival.seconds
            wait = due - clock()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(group.create_task(_ended(call(arrival, due))))
    return [task.result() for task in tasks]


async def _ended(call: Awaitable[Answer]) -> Answer:
    return await call


def steady(bodies: Sequence[bytes], a_second: float, seconds: float, texts: int = 1) -> list[Arrival]:
    """Evenly spaced arrivals that take the bodies in turn."""
    count = max(1, round(a_second * seconds))
    return [Arrival(number / a_second, bodies[number % len(bodies)], texts) for number in range(count)]


def percentile_ms(answers: Sequence[Answer], percent: float) -> float:
    """Over the calls that succeeded, in milliseconds; not a number if none did."""
    served = [answer.seconds for answer in answers if answer.is_ok]
    return float(np.percentile(served, percent)) * 1e3 if served else float("nan")
