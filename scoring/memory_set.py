"""Memories held in memory with everything that the ranking formula needs of them.

The server's partitions and the client's cache are this one structure: what makes their answers equal is
that neither has a scoring loop of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.scoring.keyword import KeywordIndex, Statistics
from precall.scoring.ranking import Candidates
from precall.scoring.vectors import widened

_FIRST_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class Features:
    """What ranking needs of one memory.

    ``vector``: float16, shape ``(dimension,)``. ``impacts``: keyword term -> weight.
    The three moments are Unix seconds; ``depth`` is 1 on the top rung.
    """

    vector: NDArray[np.float16]
    impacts: Mapping[str, float]
    importance: float
    event_seconds: float
    servable_from: float
    servable_until: float
    depth: int


@dataclass(frozen=True, slots=True)
class FeatureBlock:
    """`Features` of ``n`` memories that stand on one rung, column by column.

    ``vectors``: float16, shape ``(n, dimension)``. ``terms``: of each memory, none of them twice.
    ``impacts``: float32, of the first memory's terms, then of the second's, and so on. ``importance``:
    float32, shape ``(n,)``. ``moments``: float64, shape ``(n, 3)``: event, servable from, servable until, in
    Unix seconds.
    """

    vectors: NDArray[np.float16]
    terms: Sequence[Sequence[str]]
    impacts: NDArray[np.float32]
    importance: NDArray[np.float32]
    moments: NDArray[np.float64]
    depth: int


class MemorySet:
    """A growable table over dense slots ``0 .. len-1``; removing moves the last row into the hole.

    Vectors stand as float32 (their values stay those of float16), ready for one matrix product over all
    rows, until ``halve`` is called. Not thread-safe; its owner locks.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.ids: list[str] = []
        self.keywords = KeywordIndex()
        self._slots: dict[str, int] = {}
        self._vectors: NDArray[np.floating] = np.empty((0, dimension), np.float32)
        self._importance = np.empty(0, np.float32)
        self._moments = np.empty((0, 3), np.float64)  # event, servable from, servable until
        self._depth = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._slots

    @property
    def vectors(self) -> NDArray[np.floating]:
        """A view, shape ``(len, dimension)``."""
        return self._vectors[: len(self)]

    @property
    def nbytes(self) -> int:
        """Bytes of the columns; postings and ids come on top."""
        return self._vectors.nbytes + self._importance.nbytes + self._moments.nbytes + self._depth.nbytes

    def halve(self) -> None:
        """Keep the vectors as float16 from here on: for a large set whose owner scores chosen rows alone."""
        self._vectors = self._vectors.astype(np.float16, copy=False)

    def reserve(self, rows: int) -> None:
        """Have room for so many without moving what is there: growing by and by would copy it each time."""
        if rows > len(self._vectors):
            self._grow(max(_FIRST_CAPACITY, rows + rows // 8))

    def slot(self, memory_id: str) -> int:
        """Raises KeyError for an id that is not held."""
        return self._slots[memory_id]

    def add(self, memory_id: str, features: Features) -> int:
        """Append a memory; returns its slot. Raises ValueError for an id that is held already."""
        if memory_id in self._slots:
            raise ValueError(f"memory {memory_id} is held already")
        if features.vector.shape != (self.dimension,):
            raise ValueError(f"vector of shape {features.vector.shape}, expected ({self.dimension},)")
        slot = len(self)
        self._make_room(slot + 1)
        self._vectors[slot] = features.vector
        self._importance[slot] = features.importance
        self._moments[slot] = (features.event_seconds, features.servable_from, features.servable_until)
        self._depth[slot] = features.depth
        self.keywords.add(features.impacts)
        self.ids.append(memory_id)
        self._slots[memory_id] = slot
        return slot

    def extend(self, memory_ids: Sequence[str], features: FeatureBlock) -> None:
        """Append many memories, as `add` would one after the other.

        Raises ValueError for an id that is held already or comes twice, and for columns that do not fit; then
        nothing was changed.
        """
        count, begin = len(memory_ids), len(self)
        slots = dict(zip(memory_ids, range(begin, begin + count), strict=True))
        if len(slots) < count or not self._slots.keys().isdisjoint(slots.keys()):
            raise ValueError("a memory is held already, or comes twice")
        if features.vectors.shape != (count, self.dimension):
            raise ValueError(
                f"vectors of shape {features.vectors.shape}, expected ({count}, {self.dimension})"
            )
        if not len(features.terms) == len(features.importance) == len(features.moments) == count:
            raise ValueError(f"columns of other lengths than {count}")
        self.keywords.extend(features.terms, features.impacts)
        self._make_room(begin + count)
        rows = slice(begin, begin + count)
        self._vectors[rows] = (
            features.vectors if self._vectors.dtype == np.float16 else widened(features.vectors)
        )
        self._importance[rows] = features.importance
        self._moments[rows] = features.moments
        self._depth[rows] = features.depth
        self.ids.extend(memory_ids)
        self._slots |= slots

    def remove(self, memory_id: str) -> int:
        """Drop a memory; returns the slot that was freed, which the last row now has.

        Raises KeyError for an id that is not held.
        """
        slot = self._slots.pop(memory_id)
        self.keywords.remove(slot)
        last = len(self) - 1
        last_id = self.ids.pop()
        if slot != last:
            self.ids[slot] = last_id
            self._slots[last_id] = slot
            for column in (self._vectors, self._importance, self._moments, self._depth):
                column[slot] = column[last]
        self._vectors[last] = 0  # a destroyed memory leaves no vector behind
        return slot

    def features(self, memory_id: str) -> Features:
        """What the memory was added with."""
        slot = self._slots[memory_id]
        event, servable_from, servable_until = self._moments[slot].tolist()
        return Features(
            vector=self._vectors[slot].astype(np.float16),
            impacts=self.keywords.impacts(slot),
            importance=float(self._importance[slot]),
            event_seconds=event,
            servable_from=servable_from,
            servable_until=servable_until,
            depth=int(self._depth[slot]),
        )

    def candidates(
        self,
        query_vector: NDArray[np.float32],
        term_weights: Mapping[str, float],
        slots: NDArray[np.integer] | None = None,
    ) -> Candidates:
        """Score all rows, or the given ones, for a query: a unit vector and its terms' idf.

        With ``slots`` None the columns are views: rank them before the set changes.
        """
        keyword = self.keywords.scores(term_weights)
        if slots is None:
            dense = _cosines(self.vectors, query_vector)
            return self._columns(self.ids, slice(len(self)), dense, keyword)
        return self.chosen(slots, query_vector, keyword[slots])

    def chosen(
        self, slots: NDArray[np.integer], query_vector: NDArray[np.float32], keyword: NDArray[np.float32]
    ) -> Candidates:
        """The given rows, whose keyword scores are known already."""
        dense = _cosines(self._vectors[slots], query_vector)
        return self._columns([self.ids[slot] for slot in slots.tolist()], slots, dense, keyword)

    def without_dense(self, term_weights: Mapping[str, float]) -> Candidates:
        """All rows, scored by keywords alone: ``dense`` is 0. The columns are views."""
        dense = np.zeros(len(self), np.float32)
        return self._columns(self.ids, slice(len(self)), dense, self.keywords.scores(term_weights))

    @property
    def importance(self) -> NDArray[np.float32]:
        """A view, shape ``(len,)``, as are the moments."""
        return self._importance[: len(self)]

    @property
    def event_seconds(self) -> NDArray[np.float64]:
        return self._moments[: len(self), 0]

    @property
    def servable_from(self) -> NDArray[np.float64]:
        return self._moments[: len(self), 1]

    @property
    def servable_until(self) -> NDArray[np.float64]:
        return self._moments[: len(self), 2]

    def _columns(
        self,
        ids: list[str],
        rows: "slice | NDArray[np.integer]",
        dense: NDArray[np.float32],
        keyword: NDArray[np.float32],
    ) -> Candidates:
        moments = self._moments[rows]
        return Candidates(
            ids=ids,
            dense=dense,
            keyword=keyword,
            importance=self._importance[rows],
            event_seconds=moments[:, 0],
            servable_from=moments[:, 1],
            servable_until=moments[:, 2],
            depth=self._depth[rows],
        )

    def statistics(self, terms: Iterable[str] | None = None) -> Statistics:
        return self.keywords.statistics(terms)

    def _make_room(self, rows: int) -> None:
        capacity = len(self._vectors)
        if rows > capacity:
            self._grow(max(_FIRST_CAPACITY, capacity * 2, rows))

    def _grow(self, capacity: int) -> None:
        self._vectors = _grown(self._vectors, capacity)
        self._importance = _grown(self._importance, capacity)
        self._moments = _grown(self._moments, capacity)
        self._depth = _grown(self._depth, capacity)

    def check_integrity(self) -> None:
        """Raise AssertionError when the columns disagree; for tests."""
        assert self._slots == {memory_id: slot for slot, memory_id in enumerate(self.ids)}
        assert self.keywords.documents == len(self.ids) <= len(self._vectors)
        assert not self._vectors[len(self) :].any(), "a removed vector stayed behind"
        self.keywords.check_integrity()


def _cosines(vectors: NDArray[np.floating], query_vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Row by row and not as a matrix product, which BLAS would split over threads: on busy cores the one then
    waits for the other's time slice (2,000 x 384: 8 ms at P95 instead of 0.2).
    """
    cosines: NDArray[np.float32] = np.vecdot(widened(vectors), query_vector)
    return cosines


def _grown(column: NDArray, capacity: int) -> NDArray:  # type: ignore[type-arg]
    grown = np.zeros((capacity, *column.shape[1:]), column.dtype)
    grown[: len(column)] = column
    return grown


def concatenate(parts: Sequence[Candidates]) -> Candidates:
    """Candidates of several sets as one table."""
    if len(parts) == 1:
        return parts[0]
    return Candidates(
        ids=[memory_id for part in parts for memory_id in part.ids],
        dense=np.concatenate([part.dense for part in parts]),
        keyword=np.concatenate([part.keyword for part in parts]),
        importance=np.concatenate([part.importance for part in parts]),
        event_seconds=np.concatenate([part.event_seconds for part in parts]),
        servable_from=np.concatenate([part.servable_from for part in parts]),
        servable_until=np.concatenate([part.servable_until for part in parts]),
        depth=np.concatenate([part.depth for part in parts]),
    )
