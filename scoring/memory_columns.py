"""Memories as columns: vectors and the numbers that the ranking formula needs, a row a memory.

The server's partitions and the client's cache both stand on these: what makes their answers equal is that
neither ranks by anything else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    """`Features` of ``n`` memories, column by column.

    ``vectors``: float16, or float32 with float16's values, shape ``(n, dimension)``. ``terms``: of each
    memory, none of them twice. ``impacts``: float32, of the first memory's terms, then of the second's, and
    so on. ``importance``: float32, shape ``(n,)``. ``moments``: float64, shape ``(n, 3)``: event, servable
    from, servable until, in Unix seconds. ``depth``: of all of them, or int32, shape ``(n,)``.
    """

    vectors: NDArray[np.floating]
    terms: Sequence[Sequence[str]]
    impacts: NDArray[np.float32]
    importance: NDArray[np.float32]
    moments: NDArray[np.float64]
    depth: "int | NDArray[np.int32]"


class MemoryColumns:
    """A growable table over dense slots ``0 .. len-1``; removing moves the last row into the hole.

    What memories say is not here: whoever owns the table keeps that by slot. Vectors stand as float32 (their
    values stay those of float16), ready for one matrix product over all rows, until ``halve`` is called. Not
    thread-safe; its owner locks.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.ids: list[str] = []
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

    def append(self, memory_id: str, features: Features) -> int:
        """Append a row; returns its slot. Raises ValueError for an id that is held already."""
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
        self.ids.append(memory_id)
        self._slots[memory_id] = slot
        return slot

    def check_block(self, memory_ids: Sequence[str], features: FeatureBlock) -> None:
        """Raises ValueError for what `append_block` does not take."""
        count, ids = len(memory_ids), set(memory_ids)
        if len(ids) < count or not self._slots.keys().isdisjoint(ids):
            raise ValueError("a memory is held already, or comes twice")
        if features.vectors.shape != (count, self.dimension):
            raise ValueError(
                f"vectors of shape {features.vectors.shape}, expected ({count}, {self.dimension})"
            )
        if not len(features.importance) == len(features.moments) == count:
            raise ValueError(f"columns of other lengths than {count}")

    def append_block(self, memory_ids: Sequence[str], features: FeatureBlock) -> None:
        """Append many rows, as `append` would one after the other. Raises ValueError for an id that is held
        already or comes twice, and for columns that do not fit; then nothing was changed.
        """
        self.check_block(memory_ids, features)
        count, begin = len(memory_ids), len(self)
        self._make_room(begin + count)
        rows = slice(begin, begin + count)
        self._vectors[rows] = (
            features.vectors if self._vectors.dtype == np.float16 else widened(features.vectors)
        )
        self._importance[rows] = features.importance
        self._moments[rows] = features.moments
        self._depth[rows] = features.depth
        self.ids.extend(memory_ids)
        self._slots.update(zip(memory_ids, range(begin, begin + count), strict=True))

    def remove(self, memory_id: str) -> int:
        """Drop a memory; returns the slot that was freed, which the last row now has.

        Raises KeyError for an id that is not held.
        """
        slot = self._slots.pop(memory_id)
        last = len(self) - 1
        last_id = self.ids.pop()
        if slot != last:
            self.ids[slot] = last_id
            self._slots[last_id] = slot
            for column in (self._vectors, self._importance, self._moments, self._depth):
                column[slot] = column[last]
        self._vectors[last] = 0  # a destroyed memory leaves no vector behind
        return slot

    def row(self, memory_id: str, impacts: Mapping[str, float]) -> Features:
        """What the memory was added with. ``impacts``: of its words, which whoever owns the table knows."""
        slot = self._slots[memory_id]
        event, servable_from, servable_until = self._moments[slot].tolist()
        return Features(
            vector=self._vectors[slot].astype(np.float16),
            impacts=impacts,
            importance=float(self._importance[slot]),
            event_seconds=event,
            servable_from=servable_from,
            servable_until=servable_until,
            depth=int(self._depth[slot]),
        )

    def scored(
        self,
        keyword: NDArray[np.float32],
        query_vector: NDArray[np.float32] | None,
        slots: NDArray[np.integer] | None = None,
    ) -> Candidates:
        """All rows, or the given ones, with their ``keyword`` scores and, for a unit vector, their cosines;
        without one ``dense`` is 0. With ``slots`` None the columns are views: rank them before the table
        changes.
        """
        rows: slice | NDArray[np.integer] = slice(len(self)) if slots is None else slots
        ids = self.ids if slots is None else [self.ids[slot] for slot in slots.tolist()]
        dense = (
            np.zeros(len(ids), np.float32)
            if query_vector is None
            else _cosines(self._vectors[rows], query_vector)
        )
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
        assert len(self.ids) <= len(self._vectors)
        assert not self._vectors[len(self) :].any(), "a removed vector stayed behind"


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
