"""The items that one cache holds, in the same columns that the server ranks from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.client.held_terms import HeldTerms
from precall.proto import common_pb2
from precall.scoring.memory_columns import FeatureBlock, MemoryColumns
from precall.scoring.ranking import Candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedItem:
    """A pushed memory. ``wire_bytes`` is what it took to send; times are Unix seconds.

    depth: 1 is the top rung.  held_since: ``Clock.elapsed`` of its push.  stamp: the server's, of all that it
    sent of the memory.
    """

    memory: common_pb2.Memory
    rung: str
    depth: int
    predictor: str
    stamp: int
    wire_bytes: int
    held_since: float
    event_seconds: float
    servable_from: float
    servable_until: float


@dataclass(frozen=True, slots=True)
class ItemBlock:
    """Items that came together. ``vectors``: float16 values, as such or as float32, ``(items, dimension)``.
    ``terms``: the words of each, none of them twice. ``weights``: float32, of the first one's words, then of
    the second one's, and so on.
    """

    items: Sequence[CachedItem]
    vectors: NDArray[np.floating]
    terms: Sequence[Sequence[str]]
    weights: NDArray[np.float32]


class HeldItems:
    """Items by id, the one that was pushed first at the front, each with its row and its words.

    Not thread-safe; its owner lives on one event loop.
    """

    def __init__(self, dimension: int) -> None:
        self._rows = MemoryColumns(dimension)
        self._terms = HeldTerms()
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

    def fits(self, vector: NDArray[np.float32]) -> bool:
        """Whether a vector is of their dimension; where there is none yet, each is."""
        return self.dimension in (0, len(vector))

    def extend(self, block: ItemBlock) -> None:
        """None of the ids may be held, or come twice: ValueError, and nothing was changed."""
        items = block.items
        if not items:
            return
        ids = [item.memory.id for item in items]
        moments = [(item.event_seconds, item.servable_from, item.servable_until) for item in items]
        features = FeatureBlock(
            vectors=block.vectors,
            terms=(),
            impacts=block.weights,
            importance=np.array([item.memory.importance for item in items], np.float32),
            moments=np.array(moments, np.float64),
            depth=np.array([item.depth for item in items], np.int32),
        )
        self._rows.append_block(ids, features)
        self._terms.extend(block.terms, block.weights)
        self._items.update(zip(ids, items, strict=True))

    def pop(self, memory_id: str) -> CachedItem | None:
        """Remove an item; None when it was not held."""
        item = self._items.pop(memory_id, None)
        if item is not None:
            self._terms.remove(self._rows.remove(memory_id))
        return item

    def terms(self, memory_id: str) -> list[str]:
        """The words of an item that is held."""
        return self._terms.terms(self._rows.slot(memory_id))

    def impacts(self, memory_id: str) -> Mapping[str, float]:
        """Word -> weight of an item that is held."""
        return self._terms.impacts(self._rows.slot(memory_id))

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
        return self._rows.scored(self._terms.scores(term_weights), query_vector if len(self) else None)

    def check_integrity(self) -> None:
        """Raise AssertionError when the table and the items disagree; for tests."""
        self._rows.check_integrity()
        self._terms.check_integrity()
        assert set(self._rows.ids) == self._items.keys()
        assert self._terms.documents == len(self)
        since = [item.held_since for item in self._items.values()]
        assert since == sorted(since)
        for memory_id, item in self._items.items():
            row = self._rows.row(memory_id, self.impacts(memory_id))
            assert item.memory.id == memory_id and list(row.impacts) == self.terms(memory_id)
            assert np.float32(row.importance) == np.float32(item.memory.importance)
            assert row.depth == item.depth == len(item.memory.scope.levels)
            moments = (item.event_seconds, item.servable_from, item.servable_until)
            assert (row.event_seconds, row.servable_from, row.servable_until) == moments
