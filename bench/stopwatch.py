"""Timing of one call on a busy machine: warmed, repeated, the contenders taking turns."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np


def measure_in_turns(
    contenders: Mapping[str, Callable[[int], object]], *, rounds: int, warm_up: int = 3
) -> dict[str, Sequence[float]]:
    """Seconds of each call, per contender, over ``rounds`` calls; the argument is the round's number.

    Contenders take turns within a round, so that a noisy moment hits all of them, and another one begins each
    round, so that nobody always finds the caches and thread pools as its neighbour left them.
    """
    for turn in range(warm_up):
        for call in contenders.values():
            call(turn)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in (*names[first:], *names[:first]):
                begin = time.perf_counter()
                contenders[name](turn)
                seconds[name].append(time.perf_counter() - begin)
    finally:
        if collecting:
            gc.enable()
    return dict(seconds)


def median_ms(seconds: Sequence[float]) -> float:
    return float(np.median(seconds)) * 1e3
