"""The slots that have a facet, so that a filter costs a look-up and not a walk over every memory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.filter import Facet, MemoryFilter, facets_of, key_family
from precall.engine.index.slot_set import SlotSet
from precall.engine.memory.block import MemoryBlock
from precall.engine.memory.memory import Memory

_NO_SLOTS: Final = np.empty(0, np.int64)


class FacetIndex:
    """Facet -> slots. Not thread-safe; its owner locks. A facet that no memory has leaves nothing behind."""

    def __init__(self) -> None:
        self._slots: dict[Facet, SlotSet] = {}

    def add(self, slot: int, memory: Memory) -> None:
        for facet in facets_of(memory):
            self._slots.setdefault(facet, SlotSet()).add(slot)

    def extend(self, first: int, block: MemoryBlock) -> None:
        """Add the memories of a block at ``first`` and the slots behind it, as `add` would one by one."""
        labels = block.labels
        for name, column in (("kind", labels.kinds), ("conversation", labels.conversation_ids)):
            for value, slots in _slots_by_value(column, first).items():
                self._update((name, value), slots)
        for key, slots in _slots_by_value(labels.keys, first).items():
            self._update(("key", key), slots)
            if family := key_family(key):
                self._update(("family", family), slots)
        if any(labels.pinned):
            self._update(
                ("pinned", "true"), [first + row for row, is_pinned in enumerate(labels.pinned) if is_pinned]
            )
        if any(labels.metadata):
            for slot, metadata in enumerate(labels.metadata, first):
                for name, value in metadata.items():
                    self._update(("metadata", name, value), (slot,))

    def _update(self, facet: Facet, slots: Iterable[int]) -> None:
        self._slots.setdefault(facet, SlotSet()).update(slots)

    def remove(self, slot: int, memory: Memory, last: int, last_memory: Memory) -> None:
        """``memory`` goes from ``slot``, and ``last_memory`` moves there from ``last``."""
        for facet in facets_of(memory):
            held = self._slots[facet]
            held.drop(slot)
            if not len(held):
                del self._slots[facet]
        if slot != last:
            for facet in facets_of(last_memory):
                held = self._slots[facet]
                held.drop(last)
                held.add(slot)

    def having(self, facet: Facet) -> NDArray[np.int64]:
        """The slots that have it, in no order. Not to be changed."""
        held = self._slots.get(facet)
        return _NO_SLOTS if held is None else held.array()

    def mask(self, asked: MemoryFilter, event_seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which rows pass, bool, shape ``(n,)``, given the event time of each in Unix seconds."""
        passing = np.ones(len(event_seconds), np.bool_)
        if asked.event_from is not None:
            passing &= event_seconds >= asked.event_from.timestamp()
        if asked.event_until is not None:
            passing &= event_seconds < asked.event_until.timestamp()
        for alternatives in asked.alternatives():
            having = np.zeros(len(event_seconds), np.bool_)
            for facet in alternatives:
                if (held := self._slots.get(facet)) is not None:
                    having[held.array()] = True
            passing &= having
        return passing

    def check_integrity(self, memories: list[Memory]) -> None:
        """Raise AssertionError unless this is what ``memories``, by slot, have; for tests."""
        expected = {(facet, slot) for slot, memory in enumerate(memories) for facet in facets_of(memory)}
        held = {(facet, slot) for facet, slots in self._slots.items() for slot in slots.array().tolist()}
        assert held == expected
        assert all(map(len, self._slots.values()))


def _slots_by_value(column: Sequence[str], first: int) -> Mapping[str, Sequence[int]]:
    """Of a column whose first row is slot ``first``: where each word stands, empty ones apart."""
    slots: defaultdict[str, list[int]] = defaultdict(list)
    if any(column):
        for slot, value in enumerate(column, first):
            if value:
                slots[value].append(slot)
    return slots
