"""The items that one cache holds, in the same table that the server ranks from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.proto import common_pb2
from precall.scoring.memory_set import Features, MemorySet
from precall.scoring.ranking import Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedItem:
    """A pushed memory. ``wire_bytes`` is what it took to send; times are Unix seconds.

    impacts: keyword term -> weight.  depth: 1 is the top rung.  held_since: ``Clock.elapsed`` of its push.
    stamp: the server's, of all that it sent of the memory.
    """

    memory: common_pb2.Memory
    rung: str
    depth: int
    impacts: Mapping[str, float]
    predictor: str
    stamp: int
    wire_bytes: int
    held_since: float
    event_seconds: float
    servable_from: float
    servable_until: float


class HeldItems:
    """Items by id, the one that was pushed first at the front, each with its row in a ``MemorySet``.

    Not thread-safe; its owner lives on one event loop.
    """

    def __init__(self, dimension: int) -> None:
        self._rows = MemorySet(dimension)
        self._items: dict[str, CachedItem] = {}

    @property
    def dimension(self) -> int:
        return self._rows.dimension

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._items

    def __iter__(self) -> Iterator[CachedItem]:
        return iter(self._items.values())

    def __getitem__(self, memory_id: str) -> CachedItem:
        return self._items[memory_id]

    def append(self, item: CachedItem, vector: NDArray[np.floating]) -> None:
        """``vector``: values of float16, shape ``(dimension,)``. The id must not be held."""
        features = Features(
            vector=vector.astype(np.float16),
            impacts=item.impacts,
            importance=item.memory.importance,
            event_seconds=item.event_seconds,
            servable_from=item.servable_from,
            servable_until=item.servable_until,
            depth=item.depth,
        )
        self._rows.add(item.memory.id, features)
        self._items[item.memory.id] = item

    def pop(self, memory_id: str) -> CachedItem | None:
        """Remove an item; None when it was not held."""
        item = self._items.pop(memory_id, None)
        if item is not None:
            self._rows.remove(memory_id)
        return item

    def held_before(self, moment: float) -> list[str]:
        """Ids of the items whose push is at ``moment`` (``Clock.elapsed``) or before it."""
        aged = []
        for memory_id, item in self._items.items():
            if item.held_since > moment:
                break
            aged.append(memory_id)
        return aged

    def candidates(
        self, query_vector: NDArray[np.float32] | None, term_weights: Mapping[str, float]
    ) -> Candidates:
        """Every held item, scored; without a query vector the dense scores are 0. Views: not for keeping."""
        if query_vector is None or not len(self):
            return self._rows.without_dense(term_weights)
        return self._rows.candidates(query_vector, term_weights)

    def check_integrity(self) -> None:
        """Raise AssertionError when the table and the items disagree; for tests."""
        self._rows.check_integrity()
        assert set(self._rows.ids) == self._items.keys()
        since = [item.held_since for item in self._items.values()]
        assert since == sorted(since)
        for memory_id, item in self._items.items():
            row = self._rows.features(memory_id)
            assert item.memory.id == memory_id and dict(row.impacts) == dict(item.impacts)
            assert np.float32(row.importance) == np.float32(item.memory.importance)
            assert row.depth == item.depth == len(item.memory.scope.levels)
            moments = (item.event_seconds, item.servable_from, item.servable_until)
            assert (row.event_seconds, row.servable_from, row.servable_until) == moments
