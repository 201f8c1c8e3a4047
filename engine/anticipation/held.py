"""What one session's cache holds, as the server knows it, and why each item is worth its bytes."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from precall.engine.memory.memory import IndexedMemory

ITEM_OVERHEAD_BYTES = 400
"""Ids, moments and object headers of an item in a client, measured on the Python client."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What must travel so that the cache follows: new items, items to drop, coverages that no longer hold."""

    added: Sequence[IndexedMemory]
    evicted_ids: Sequence[str]
    retired_coverage_ids: Sequence[int]


class HeldSet:
    """Ids and sizes of what a session holds, within a budget of items and bytes.

    An item is held for a reason: its rung is complete, it was written while the session was open, or one of
    the last answered queries found it. Items without a reason are evicted, and with them the coverage
    claims that counted on them. Invariant: an id is in ``self`` from the moment its push is queued until
    its eviction or invalidation is queued.
    """

    def __init__(self, *, max_items: int, max_bytes: int, coverages_kept: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._coverages_kept = coverages_kept
        self._sizes: dict[str, int] = {}
        self._lasting: set[str] = set()
        self._coverages: OrderedDict[int, frozenset[str]] = OrderedDict()
        self._bytes = 0

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def ids(self) -> Collection[str]:
        return self._sizes.keys()

    @property
    def bytes(self) -> int:
        return self._bytes

    def fits(self, memories: Collection[IndexedMemory]) -> bool:
        """Whether all of these could be held beside what lasts."""
        new = [indexed for indexed in memories if indexed.memory.id not in self._sizes]
        return (
            len(self._sizes) + len(new) <= self._max_items
            and self._bytes + sum(size_of(indexed) for indexed in new) <= self._max_bytes
        )

    def add_lasting(self, memories: Sequence[IndexedMemory]) -> Sequence[IndexedMemory]:
        """Hold these until they are removed; returns those that were not held yet. They must fit."""
        added = [indexed for indexed in memories if self._hold(indexed)]
        self._lasting.update(indexed.memory.id for indexed in memories)
        return added

    def add_answer(
        self, coverage_id: int, memory_ids: Collection[str], new: Sequence[IndexedMemory]
    ) -> Difference:
        """Hold what answers a query, in place of the oldest answers where the budget asks for it.

        ``memory_ids``: all that the query found. ``new``: those of them that are not held, best first.
        """
        answer = frozenset(memory_ids)
        retired: list[int] = []
        evicted: list[str] = []
        while self._coverages and (len(self._coverages) >= self._coverages_kept or not self.fits(new)):
            retired.append(self._retire_oldest())
            evicted += self._evict_unreasoned(keep=answer)
        evicted += self._evict_unreasoned(keep=answer)
        fitting = list(new)
        while fitting and not self.fits(fitting):
            fitting.pop()
        added = [indexed for indexed in fitting if self._hold(indexed)]
        if len(fitting) == len(new):
            self._coverages[coverage_id] = answer
        return Difference(added, evicted, retired)

    def covers(self, coverage_id: int) -> bool:
        """Whether everything that the query found is held, so that its floor is true."""
        return coverage_id in self._coverages

    def retire_coverages(self) -> Sequence[int]:
        """Give up every claim about what is not held; returns their ids."""
        retired = list(self._coverages)
        self._coverages.clear()
        return retired

    def remove(self, memory_id: str) -> bool:
        """Forget an invalidated item; whether it was held. Coverages stay true: it is gone everywhere."""
        size = self._sizes.pop(memory_id, None)
        if size is None:
            return False
        self._bytes -= size
        self._lasting.discard(memory_id)
        return True

    def _hold(self, indexed: IndexedMemory) -> bool:
        if indexed.memory.id in self._sizes:
            return False
        size = size_of(indexed)
        self._sizes[indexed.memory.id] = size
        self._bytes += size
        return True

    def _retire_oldest(self) -> int:
        coverage_id, _ = self._coverages.popitem(last=False)
        return coverage_id

    def _evict_unreasoned(self, *, keep: Collection[str]) -> list[str]:
        reasons = self._lasting.union(keep, *self._coverages.values())
        evicted = [memory_id for memory_id in self._sizes if memory_id not in reasons]
        for memory_id in evicted:
            self._bytes -= self._sizes.pop(memory_id)
        return evicted

    def check_integrity(self) -> None:
        """Raise AssertionError when the books are wrong; for tests."""
        assert self._bytes == sum(self._sizes.values())
        assert self._lasting <= self._sizes.keys()
        assert len(self._sizes) <= self._max_items and self._bytes <= self._max_bytes
        assert len(self._coverages) <= self._coverages_kept


def size_of(indexed: IndexedMemory) -> int:
    """Bytes that an item takes in a client's process, about."""
    memory, source = indexed.memory, indexed.memory.source
    words = (
        memory.text, memory.key, source.conversation_id, source.turn_id, source.uri,
        *source.memory_ids, *memory.questions,
    )  # fmt: skip
    return (
        ITEM_OVERHEAD_BYTES
        + sum(len(text.encode()) for text in words)
        + indexed.vector.nbytes * 2  # float32 in the cache
        + sum(len(term) + 12 for term in indexed.impacts)
        + sum(len(key) + len(value) for key, value in memory.metadata.items())
    )
