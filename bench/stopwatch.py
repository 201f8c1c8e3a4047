"""Timing of calls on a busy machine: warmed, repeated, the contenders taking turns."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each call: by the clock, and of processor time of the thread that called; float64."""

    clock: NDArray[np.float64]
    processor: NDArray[np.float64]

    @property
    def p50_ms(self) -> float:
        return float(np.median(self.clock)) * 1e3

    @property
    def p99_ms(self) -> float:
        return float(np.percentile(self.clock, 99)) * 1e3

    @property
    def fastest_ms(self) -> float:
        """The shortest of all: what is left of a call when nothing disturbs it."""
        return float(self.clock.min()) * 1e3

    @property
    def processor_ms(self) -> float:
        """Processor time at P50: what a busy machine does to a call, save its caches, is not in it."""
        return float(np.median(self.processor)) * 1e3


def time_in_turns(
    contenders: Mapping[str, Callable[[int], object]], *, rounds: int, warm_up: int = 5
) -> dict[str, Timing]:
    """Each contender is called once a round with the round's number; nothing is collected meanwhile.

    Contenders take turns within a round, so that a noisy moment hits all of them, and another one begins each
    round, so that nobody always finds the caches and thread pools as its neighbour left them. What a
    contender does on other threads is missing in its processor time.
    """
    for turn in range(warm_up):
        for call in contenders.values():
            call(turn)
    clock: dict[str, list[float]] = {name: [] for name in contenders}
    processor: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in (*names[first:], *names[:first]):
                used, begin = time.thread_time(), time.perf_counter()
                contenders[name](turn)
                clock[name].append(time.perf_counter() - begin)
                processor[name].append(time.thread_time() - used)
    finally:
        if collecting:
            gc.enable()
    return {name: Timing(np.asarray(clock[name]), np.asarray(processor[name])) for name in names}


def measure_in_turns(
    contenders: Mapping[str, Callable[[int], object]], *, rounds: int, warm_up: int = 3
) -> dict[str, Sequence[float]]:
    """Seconds of each call by the clock, per contender: see `time_in_turns`."""
    timings = time_in_turns(contenders, rounds=rounds, warm_up=warm_up)
    return {name: timing.clock.tolist() for name, timing in timings.items()}


def median_ms(seconds: Sequence[float]) -> float:
    return float(np.median(seconds)) * 1e3
