"""The current memories of one rung, searchable. Isolation is physical: a rung has its own partition."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.errors import InvalidVector
from precall.engine.index import quantizer
from precall.engine.index.codes import CodeIndex
from precall.engine.index.selection import Selection, select
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Memory
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import Features, MemorySet
from precall.scoring.ranking import Candidates

_RETRAIN_TURNOVER: Final = 3
_TRAINING_SAMPLE: Final = 5_000


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """``exact_below``: with fewer memories every one is scored, and no code is needed or trained."""

    exact_below: int = 10_000


class Partition:
    """Vectors, codes and postings of one rung. Any number of threads may read while one writes.

    Invariants: the codes, when there are any, have the same slots as the memory set; a memory is found by
    every search from the ``apply`` that adds it to the one that removes it, and by none after.
    """

    def __init__(self, rung: Rung, dimension: int, settings: PartitionSettings) -> None:
        self.rung = rung
        self._dimension = dimension
        self._settings = settings
        self._lock = threading.RLock()
        self._set = MemorySet(dimension)
        self._memories: dict[str, Memory] = {}
        self._codes: CodeIndex | None = None
        self._trained_on = 0

    def __len__(self) -> int:
        return len(self._memories)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._memories

    @property
    def quantized(self) -> bool:
        return self._codes is not None

    def apply(self, *, added: Iterable[IndexedMemory] = (), removed: Iterable[str] = ()) -> None:
        """Remove, then add, as one step that no search can see half of.

        Ids to remove that are not here are passed over. Raises InvalidVector for an unusable vector and
        ValueError for an id that is here already or comes twice; then nothing was changed.
        """
        batch = list(added)
        arriving = {indexed.memory.id: indexed for indexed in batch}
        for indexed in batch:
            self._check(indexed)
        with self._lock:
            leaving = [memory_id for memory_id in dict.fromkeys(removed) if memory_id in self._memories]
            if len(arriving) < len(batch) or arriving.keys() & self._memories.keys() - set(leaving):
                raise ValueError(f"rung {self.rung.values}: a memory to add is there already")
            self._remove(leaving)
            for memory_id, indexed in arriving.items():
                self._set.add(memory_id, features_of(indexed))
                self._memories[memory_id] = indexed.memory
            if self._codes is not None and batch:
                self._codes.add(np.stack([indexed.vector for indexed in batch]))
        self._adapt()

    def _remove(self, memory_ids: Sequence[str]) -> None:
        if memory_ids and len(memory_ids) == len(self._memories):
            # All of them: dropping the tables is quick, emptying them row by row is quadratic.
            self._set, self._codes = MemorySet(self._dimension), None
            self._memories.clear()
        for memory_id in memory_ids:
            if self._memories.pop(memory_id, None) is not None:
                slot = self._set.remove(memory_id)
                if self._codes is not None:
                    self._codes.remove(slot)

    def still(self) -> AbstractContextManager[bool]:
        """While this is entered, no write changes the partition. Enter several from the narrowest rung up."""
        return self._lock

    def memory(self, memory_id: str) -> Memory | None:
        return self._memories.get(memory_id)

    def indexed(self, memory_id: str) -> IndexedMemory | None:
        """A memory with its vector and impacts, or None when it is not here (any more)."""
        with self._lock:
            memory = self._memories.get(memory_id)
            if memory is None:
                return None
            features = self._set.features(memory_id)
            return IndexedMemory(memory, features.vector, features.impacts)

    def all(self) -> list[IndexedMemory]:
        """Every memory of the rung."""
        return [indexed for i in list(self._memories) if (indexed := self.indexed(i)) is not None]

    def terms(self, memory_ids: Iterable[str]) -> set[str]:
        """The keyword terms of those of these memories that are here."""
        with self._lock:
            held = [memory_id for memory_id in memory_ids if memory_id in self._memories]
            return {term for i in held for term in self._set.keywords.terms(self._set.slot(i))}

    def statistics(self, terms: Iterable[str] | None = None) -> Statistics:
        with self._lock:
            return self._set.statistics(terms)

    def candidates(
        self, query_vector: NDArray[np.float32], term_weights: Mapping[str, float], selection: Selection
    ) -> Candidates:
        """Rows that hold the best ``selection.limit`` for certain: all rows of an exact partition.

        Scores are always exact: codes choose candidates, the kept float16 vectors score them.
        """
        with self._lock:
            if self._codes is None:
                return _copied(self._set.candidates(query_vector, term_weights))
            if not len(self._codes):
                return _copied(self._set.without_dense(term_weights))
            codes = self._codes
            table = self._set.without_dense(term_weights)
            slots = select(table, lambda count: codes.nearest(query_vector, count), selection)
            return self._set.candidates(query_vector, term_weights, slots)

    def check_integrity(self) -> None:
        """Raise AssertionError when the parts disagree; for tests."""
        with self._lock:
            self._set.check_integrity()
            assert set(self._set.ids) == set(self._memories)
            if self._codes is not None:
                self._codes.check_integrity(self._set.vectors)

    def _check(self, indexed: IndexedMemory) -> None:
        vector = indexed.vector
        if vector.shape != (self._dimension,):
            raise InvalidVector(f"vector of shape {vector.shape}, this index holds ({self._dimension},)")
        length = float(np.linalg.norm(vector.astype(np.float32)))
        if not abs(length - 1.0) < 0.01:  # NaN fails this too
            raise InvalidVector(f"vector of length {length:.4f}: only unit vectors are indexed")

    def _adapt(self) -> None:
        """Start to quantise when the rung has grown enough, and train anew when most of it is newer than the
        ranges: it grew, or others took the place of what was there.
        """
        size = len(self._set)
        if self._codes is None:
            due = size >= max(self._settings.exact_below, 1)
        else:
            due = self._codes.added >= self._trained_on * (1 + _RETRAIN_TURNOVER)
        if due and size:
            # Outside the lock: only the writer, who is here, changes what this reads, and readers go on.
            vectors = self._set.vectors
            sample = np.linspace(0, size - 1, min(size, _TRAINING_SAMPLE)).astype(np.int64)
            codes = CodeIndex(quantizer.train(vectors[sample]))
            codes.add(vectors)
            with self._lock:
                self._set.halve()
                self._codes = codes
            self._trained_on = size


def find_indexed(partitions: Iterable[Partition], memory_id: str) -> IndexedMemory | None:
    """The memory from whichever of these partitions has it."""
    return next((found for p in partitions if (found := p.indexed(memory_id)) is not None), None)


def features_of(indexed: IndexedMemory) -> Features:
    """The ranking features of a stored memory."""
    memory = indexed.memory
    return Features(
        vector=indexed.vector,
        impacts=indexed.impacts,
        importance=memory.importance,
        event_seconds=memory.event_time.timestamp(),
        servable_from=memory.servable_from,
        servable_until=memory.servable_until,
        depth=memory.rung.depth,
    )


def _copied(candidates: Candidates) -> Candidates:
    """The same table, independent of later changes to the set it came from."""
    return Candidates(
        ids=list(candidates.ids),
        dense=candidates.dense,  # products, not views
        keyword=candidates.keyword,
        importance=candidates.importance.copy(),
        event_seconds=candidates.event_seconds.copy(),
        servable_from=candidates.servable_from.copy(),
        servable_until=candidates.servable_until.copy(),
        depth=candidates.depth.copy(),
    )
