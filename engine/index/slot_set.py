"""Some of a table's slots, kept right while removals move the last row into the hole."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 256
"""Slots that are looked up one by one in less time than numpy takes to begin."""


class SlotSet:
    """A set of slots of one table. Not thread-safe; its owner locks."""

    __slots__ = ("_array", "_slots")

    def __init__(self, slots: Iterable[int] = ()) -> None:
        self._slots = set(slots)
        self._array: NDArray[np.int64] | None = None  # as last asked for, unless something changed since

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, slot: int) -> bool:
        return slot in self._slots

    def holds(self, slots: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of these slots are in the set, bool, same shape."""
        if len(slots) > _FEW:
            return np.isin(slots, self.array())
        held = self._slots
        return np.array([slot in held for slot in slots.tolist()], np.bool_)

    def misses(self, slots: NDArray[np.integer]) -> bool:
        """Whether none of these slots is in the set: sooner told than `holds`."""
        return self._slots.isdisjoint(slots.tolist())

    def add(self, slot: int) -> None:
        self._slots.add(slot)
        self._array = None

    def update(self, slots: Iterable[int]) -> None:
        self._slots.update(slots)
        self._array = None

    def drop(self, slot: int) -> None:
        """Forget a slot; nothing moves into it."""
        self._slots.discard(slot)
        self._array = None

    def row_removed(self, slot: int, last: int) -> None:
        """The row at ``slot`` went; the one at ``last``, the table's last until now, has its place."""
        self._slots.discard(slot)
        if slot != last and last in self._slots:
            self._slots.remove(last)
            self._slots.add(slot)
        self._array = None

    def array(self) -> NDArray[np.int64]:
        """The slots, in no order. Not to be changed."""
        if self._array is None:
            self._array = np.fromiter(self._slots, np.int64, len(self._slots))
        return self._array
