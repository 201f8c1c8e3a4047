"""The current memories of one rung, searchable. Isolation is physical: a rung has its own partition."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from precall.engine.errors import InvalidVector
from precall.engine.index.code_keeper import CodeKeeper
from precall.engine.index.codes import Codes, Question
from precall.engine.index.facets import FacetIndex
from precall.engine.index.features import check_lengths, copied, features_of
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.lately_pushed import LatelyPushed
from precall.engine.index.listed import ListedCodes
from precall.engine.index.score_column import ScoreColumn
from precall.engine.index.selection import Selection, select
from precall.engine.index.serving_windows import ServingWindows
from precall.engine.memory.block import MemoryBlock
from precall.engine.memory.kept_memories import KeptMemories
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Memory
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import MemorySet, concatenate
from precall.scoring.ranking import Candidates

T = TypeVar("T")

_EXACT_CHUNK: Final = 2_048
_FEW: Final = 300
"""Rows that are scored sooner than codes are asked for the best of them."""


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """``exact_below``: with fewer memories every one is scored, and no code is needed.

    ``listed_from``: from so many on a search reads the promising lists of codes alone, and now and then
    one result in a hundred is missed. Below, answers are exact.
    """

    exact_below: int = 2_000
    listed_from: int = 50_000


class Partition:
    """Vectors, codes, postings and facets of one rung. Any number of threads may read while one writes.

    Invariants: codes and facets have the same slots as the memory set; a memory is found by every search from
    the ``apply`` that adds it to the one that removes it, and by none after.
    """

    def __init__(self, rung: Rung, dimension: int, settings: PartitionSettings) -> None:
        self.rung = rung
        self._dimension = dimension
        self._settings = settings
        self._lock = threading.RLock()
        self._memories = KeptMemories()
        self._lately = LatelyPushed()
        self._changes = 0
        self._clear()

    def _clear(self) -> None:
        self._set = MemorySet(self._dimension)
        self._facets = FacetIndex()
        self._windows = ServingWindows(self._set)
        sizes = self._settings
        self._keeper = CodeKeeper(
            self.rung, self._set, self._lock, exact_below=sizes.exact_below, listed_from=sizes.listed_from
        )
        self._scores = ScoreColumn()
        self._memories.clear()
        self._lately.clear()

    def __len__(self) -> int:
        return len(self._memories)

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._memories

    @property
    def changes(self) -> int:
        """How often its memories have changed; while this stands, all that is read here does."""
        with self._lock:
            return self._changes

    @property
    def ids(self) -> Sequence[str]:
        """Of every memory of the rung."""
        with self._lock:
            return list(self._memories)

    @property
    def codes(self) -> Codes | None:
        """What searches choose by; for measurements."""
        return self._keeper.codes

    @property
    def quantized(self) -> bool:
        return self.codes is not None

    @property
    def listed(self) -> bool:
        """Whether codes stand in lists, and a result may be missed."""
        return isinstance(self.codes, ListedCodes)

    def wait_until_listed(self) -> None:
        """Return when no listing is in progress; not to be called from the event loop."""
        self._keeper.wait_until_listed()

    def apply(self, *, added: Iterable[IndexedMemory] = (), removed: Iterable[str] = ()) -> None:
        """Remove, then add, as one step that no search can see half of.

        Ids to remove that are not here are passed over. Raises InvalidVector for an unusable vector and
        ValueError for an id that is here already or comes twice; then nothing was changed.
        """
        batch = list(added)
        arriving = {indexed.memory.id: indexed for indexed in batch}
        for indexed in batch:
            if indexed.vector.shape != (self._dimension,):
                raise InvalidVector(
                    f"vector of shape {indexed.vector.shape}, this index holds ({self._dimension},)"
                )
        if batch:
            check_lengths(np.stack([indexed.vector for indexed in batch]))
        with self._lock:
            leaving = [memory_id for memory_id in dict.fromkeys(removed) if memory_id in self._memories]
            # One by one: a set of all that is here would make each write as slow as the rung is large.
            present = {memory_id for memory_id in arriving if memory_id in self._memories}
            if len(arriving) < len(batch) or present.difference(leaving):
                raise ValueError(f"rung {self.rung.values}: a memory to add is there already")
            self._changes += 1
            self._remove(leaving)
            for memory_id, indexed in arriving.items():
                self._add(memory_id, indexed)
            self._keeper.rows_added(len(batch))
        self._keeper.adapt()

    def fill(self, blocks: Iterable[MemoryBlock]) -> None:
        """Add what is read from the disk, before anybody searches here; as `apply` would, in less time.

        Raises what ``blocks`` raise, InvalidVector, and ValueError for an id that is here already or comes
        twice; then the partition is good for nothing.
        """
        with self._lock:
            for block in blocks:
                check_lengths(block.features.vectors)
                first = len(self._set)
                self._make_room(first + len(block) + block.following)
                self._set.extend(block.ids, block.features)
                self._memories.extend(block.ids, block.contents)
                self._facets.extend(first, block)
                self._windows.rows_added(first, block.features.moments)
                self._keeper.rows_added(len(block))
            self._changes += 1
        self._keeper.adapt()

    def _make_room(self, rows: int) -> None:
        """For so many as a rung may bring. Where there will be codes, vectors are float16 from the first."""
        if rows >= self._settings.exact_below:
            self._set.halve()
        self._set.reserve(rows)

    def _add(self, memory_id: str, indexed: IndexedMemory) -> None:
        memory, features = indexed.memory, features_of(indexed)
        slot = self._set.add(memory_id, features)
        self._memories.add(memory)
        self._facets.add(slot, memory)
        self._windows.row_added(slot, features)

    def _remove(self, memory_ids: Sequence[str]) -> None:
        if memory_ids and len(memory_ids) == len(self._memories):
            # All of them: dropping the tables is quick, emptying them row by row is quadratic.
            self._keeper.abandon()
            self._clear()
            return
        for memory_id in memory_ids:
            last = len(self._set) - 1
            last_memory = self._memories[self._set.ids[last]]
            memory = self._memories.pop(memory_id)
            self._lately.drop(memory_id)
            slot = self._set.remove(memory_id)
            self._facets.remove(slot, memory, last, last_memory)
            self._windows.row_removed(slot, last)
            self._keeper.row_removed(slot, last)

    def still(self) -> AbstractContextManager[bool]:
        """While this is entered, no write changes the partition. Enter several from the narrowest rung up."""
        return self._lock

    def memory(self, memory_id: str) -> Memory | None:
        return self._memories.get(memory_id)

    def indexed(self, memory_id: str) -> IndexedMemory | None:
        """A memory with its vector and impacts, or None when it is not here (any more)."""
        with self._lock:
            if memory_id not in self._memories:
                return None
            indexed = self._lately.get(memory_id)
            if indexed is None:
                indexed = self._indexed(memory_id)
                if len(self._set) > self._settings.exact_below:  # it is pushed in parts, the same to many
                    self._lately.keep(indexed)
            return indexed

    def _indexed(self, memory_id: str) -> IndexedMemory:
        features = self._set.features(memory_id)
        return IndexedMemory(self._memories[memory_id], features.vector, features.impacts)

    def all(self) -> list[IndexedMemory]:
        """Every memory of the rung."""
        return [indexed for i in self._memories if (indexed := self.indexed(i)) is not None]

    def look(self, at: Callable[[MemorySet, FacetIndex], T]) -> T:
        """What a function makes of the tables while no write changes them. It keeps and changes nothing."""
        with self._lock:
            return at(self._set, self._facets)

    def terms(self, memory_ids: Iterable[str]) -> set[str]:
        """The keyword terms of those of these memories that are here."""
        with self._lock:
            held = [memory_id for memory_id in memory_ids if memory_id in self._memories]
            return {term for i in held for term in self._set.keywords.terms(self._set.slot(i))}

    def statistics(self, terms: Iterable[str] | None = None) -> Statistics:
        with self._lock:
            return self._set.statistics(terms)

    def vocabulary(self) -> bytes:
        with self._lock:
            return self._set.keywords.vocabulary().data

    def count(self, asked: MemoryFilter | None) -> int:
        """Memories that pass a filter."""
        if asked is None or asked.is_empty:
            return len(self)
        with self._lock:
            return int(np.count_nonzero(self._facets.mask(asked, self._set.event_seconds)))

    def candidates(
        self, query_vector: NDArray[np.float32], term_weights: Mapping[str, float], selection: Selection
    ) -> Candidates:
        """Rows that hold the best ``selection.limit`` and pass its filter: all rows of a small partition.

        Scores are always exact: codes choose candidates, the kept float16 vectors score them. The choice is
        certain unless the partition is `listed`.
        """
        with self._lock:
            allowed = self._allowed(selection)
            if self._keeper.codes is None and allowed is None:
                return copied(self._set.candidates(query_vector, term_weights))
            question = Question(query_vector, selection.weights, selection.now, selection.limit)
            return self._chosen(question, term_weights, allowed)

    def exact_candidates(
        self, query_vector: NDArray[np.float32], term_weights: Mapping[str, float], selection: Selection
    ) -> Candidates | None:
        """As `candidates`, but every row is looked at: what a choice is judged by. None when a write came
        between. For no longer than a chunk at a time does it keep others waiting, and it copies no vectors.
        """
        with self._lock:
            changes, size = self._changes, len(self._set)
            keyword = self._set.keywords.scores(term_weights)
            allowed = self._allowed(selection)
        slots = np.arange(size) if allowed is None else np.flatnonzero(allowed)
        parts = []
        for begin in range(0, max(len(slots), 1), _EXACT_CHUNK):
            chunk = slots[begin : begin + _EXACT_CHUNK]
            with self._lock:
                if self._changes != changes:
                    return None
                parts.append(self._set.chosen(chunk, query_vector, keyword[chunk]))
        return concatenate(parts)

    def _allowed(self, selection: Selection) -> NDArray[np.bool_] | None:
        """Rows that pass the filter and may be served, bool, shape ``(len,)``; None when all do."""
        allowed: NDArray[np.bool_] | None = None
        if selection.filter is not None and not selection.filter.is_empty:
            allowed = self._facets.mask(selection.filter, self._set.event_seconds)
        barred = self._windows.barred(selection.now, include_upcoming=selection.include_upcoming)
        if len(barred):
            allowed = np.ones(len(self._set), np.bool_) if allowed is None else allowed
            allowed[barred] = False
        return allowed

    def _chosen(
        self, question: Question, term_weights: Mapping[str, float], allowed: NDArray[np.bool_] | None
    ) -> Candidates:
        codes = self._keeper.codes
        with self._scores.of(self._set, term_weights) as evidence:
            if allowed is not None and (codes is None or np.count_nonzero(allowed) <= _FEW):
                slots = np.flatnonzero(allowed)
            else:
                assert codes is not None
                slots = select(self._set, codes, question, evidence, allowed)
            return self._set.chosen(slots, question.vector, evidence.scores[slots])

    def check_integrity(self) -> None:
        """Raise AssertionError when the parts disagree; for tests."""
        with self._lock:
            self._set.check_integrity()
            assert set(self._set.ids) == set(self._memories)
            self._facets.check_integrity([self._memories[memory_id] for memory_id in self._set.ids])
            self._scores.check_integrity()
            self._keeper.check_integrity()
            self._lately.check_integrity(self._indexed)
