"""How long to wait before the next try."""

import random


class Backoff:
    """Exponential with jitter, so that clients which lost one server do not come back in one wave.

    The bound doubles from ``initial_seconds`` up to ``maximum_seconds``; a wait is drawn from its upper half.
    """

    def __init__(self, initial_seconds: float, maximum_seconds: float) -> None:
        self._initial = initial_seconds
        self._maximum = maximum_seconds
        self._bound = initial_seconds

    def next(self) -> float:
        """Seconds to wait now; the following wait may be twice as long."""
        wait = self._bound * random.uniform(0.5, 1.0)
        self._bound = min(self._bound * 2, self._maximum)
        return wait

    def reset(self) -> None:
        self._bound = self._initial
