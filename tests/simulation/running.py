"""Schedules by their seeds: the same seed is the same schedule, in every process."""

import asyncio
import gc
import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.schedule import Outcome, Schedule
from tests.simulation.virtual_loop import VirtualLoop


@dataclass(frozen=True)
class Failure:
    """``error``: the first of what went wrong."""

    seed: int
    error: BaseException

    def __str__(self) -> str:
        return f"seed {self.seed}: {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True)
class Totals:
    """Of many schedules. ``failures``: each with its seed, in words, which go from process to process."""

    schedules: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    failures: tuple[str, ...] = ()

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.schedules + other.schedules, self.outcome + other.outcome, self.failures + other.failures
        )


def run(seed: int) -> Outcome:
    """Raises `Broken`, or whatever else goes wrong, perhaps in a group."""
    random.seed(seed)  # what the client draws for its pauses comes from there
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(Schedule(seed).run())


def prepare_process() -> None:
    """For thousands of schedules: what one leaves behind is collected after it, and only then."""
    logging.disable(logging.CRITICAL)  # what clients say of broken connections
    gc.collect()
    gc.freeze()
    gc.disable()


def run_all(seeds: Iterable[int]) -> Totals:
    totals = Totals()
    for seed in seeds:
        try:
            totals += Totals(1, run(seed))
        except Exception as error:
            totals += Totals(1, failures=(str(Failure(seed, _first_cause(error))),))
        gc.collect()
    return totals


def first_failure(seeds: Iterable[int]) -> Failure | None:
    for seed in seeds:
        try:
            run(seed)
        except Exception as error:
            return Failure(seed, _first_cause(error))
    return None


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
