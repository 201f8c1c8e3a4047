"""Which rows of a memory set may not be served at every moment."""

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.slot_set import SlotSet
from precall.scoring.memory_columns import Features
from precall.scoring.memory_set import MemorySet


class ServingWindows:
    """Follows a set row by row; its owner locks. Most memories have no window and cost nothing here."""

    def __init__(self, rows: MemorySet) -> None:
        self._rows = rows
        self._windowed = SlotSet()

    def row_added(self, slot: int, features: Features) -> None:
        if features.servable_from > float("-inf") or features.servable_until < float("inf"):
            self._windowed.add(slot)

    def rows_added(self, first: int, moments: NDArray[np.float64]) -> None:
        """Of rows from ``first`` on; ``moments`` as `FeatureBlock` has them."""
        _, servable_from, servable_until = moments.T
        windowed = (servable_from > float("-inf")) | (servable_until < float("inf"))
        self._windowed.update((first + np.flatnonzero(windowed)).tolist())

    def row_removed(self, slot: int, last: int) -> None:
        """The ``last`` row has moved into ``slot``."""
        self._windowed.row_removed(slot, last)

    def barred(self, now: float, *, include_upcoming: bool) -> NDArray[np.integer]:
        """Rows that may not be served at ``now`` (Unix seconds), those to be served later counted unless
        ``include_upcoming``.
        """
        slots = self._windowed.array()
        if not len(slots):
            return slots
        barred = now >= self._rows.servable_until[slots]
        if not include_upcoming:
            barred |= self._rows.servable_from[slots] > now
        return slots[barred]
