"""Where the time of one read goes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum


class ReadStage(StrEnum):
    """The stages of a read; a cache looked up twice counts as one stage."""

    ENCODE = "encode"  # the query's embedding in this process
    LOOKUP = "lookup"  # scoring what is held, and the decision
    SERVER = "server"  # waiting for the server's answer
    BLOCK = "block"  # rendering for the prompt


class ReadTimes:
    """Starts when it is made. ``elapsed``: seconds of a clock that never goes back."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._seconds = dict.fromkeys(ReadStage, 0.0)
        self.started = elapsed()

    @contextmanager
    def measure(self, stage: ReadStage) -> Iterator[None]:
        """What runs inside counts for ``stage``, also when it raises."""
        began = self._elapsed()
        try:
            yield
        finally:
            self._seconds[stage] += self._elapsed() - began

    def milliseconds(self, stage: ReadStage) -> float:
        return self._seconds[stage] * 1000

    @property
    def total_milliseconds(self) -> float:
        """From the start to now."""
        return (self._elapsed() - self.started) * 1000
