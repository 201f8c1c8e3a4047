"""Whether a process may go on trusting what its caches are sure of."""

import logging
from collections import deque
from typing import Final

_log = logging.getLogger(__name__)

WINDOW: Final = 200
"""Checks that are judged together."""


class Strictness:
    """``strict`` from the moment when more than ``bar * WINDOW`` of the last ``WINDOW`` checks were wrong,
    until half of that or less are.

    The bar is a number of checks, not a share of those made so far: one wrong among the first three says
    little. At the default bar of 0.02 the fifth wrong one makes a process strict; a true rate of half a
    percent brings as many in one window of 270 (Poisson, mean 1), one of four percent in nine of ten.
    """

    def __init__(self, bar: float) -> None:
        self.checked = 0
        self.wrong = 0
        self._allowed = bar * WINDOW
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._strict = False

    @property
    def strict(self) -> bool:
        """A sure read is to be treated as a borderline one."""
        return self._strict

    def note(self, *, wrong: bool) -> None:
        """A check ended: what the cache was sure of was right or wrong."""
        self.checked += 1
        self.wrong += wrong
        self._last.append(wrong)
        wrong_lately = sum(self._last)
        if not self._strict and wrong_lately > self._allowed:
            self._strict = True
            _log.warning(
                "%d of the last %d reads that were checked were answered wrongly by the cache: the server is "
                "asked about all but complete rungs until that is better",
                wrong_lately,
                len(self._last),
            )
        elif self._strict and wrong_lately <= self._allowed / 2:
            self._strict = False
            _log.warning("the cache answers rightly again and is trusted again")
