"""Memories held in memory with everything that the ranking formula needs of them, postings included."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from precall.scoring.keyword import KeywordIndex, Statistics
from precall.scoring.memory_columns import FeatureBlock, Features, MemoryColumns
from precall.scoring.ranking import Candidates


class MemorySet(MemoryColumns):
    """`MemoryColumns` with a `KeywordIndex` over the same slots."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.keywords = KeywordIndex()

    def add(self, memory_id: str, features: Features) -> int:
        """Append a memory; returns its slot. Raises ValueError for an id that is held already."""
        slot = self.append(memory_id, features)
        self.keywords.add(features.impacts)
        return slot

    def extend(self, memory_ids: Sequence[str], features: FeatureBlock) -> None:
        """Append many memories, as `add` would one after the other.

        Raises ValueError for an id that is held already or comes twice, and for columns that do not fit; then
        nothing was changed.
        """
        self.check_block(memory_ids, features)
        if len(features.terms) != len(memory_ids):
            raise ValueError(f"columns of other lengths than {len(memory_ids)}")
        self.keywords.extend(features.terms, features.impacts)
        self.append_block(memory_ids, features)

    def remove(self, memory_id: str) -> int:
        """Drop a memory; returns the slot that was freed, which the last row now has.

        Raises KeyError for an id that is not held.
        """
        slot = super().remove(memory_id)
        self.keywords.remove(slot)
        return slot

    def features(self, memory_id: str) -> Features:
        """What the memory was added with."""
        return self.row(memory_id, self.keywords.impacts(self.slot(memory_id)))

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
        return self.scored(keyword if slots is None else keyword[slots], query_vector, slots)

    def chosen(
        self, slots: NDArray[np.integer], query_vector: NDArray[np.float32], keyword: NDArray[np.float32]
    ) -> Candidates:
        """The given rows, whose keyword scores are known already."""
        return self.scored(keyword, query_vector, slots)

    def statistics(self, terms: Iterable[str] | None = None) -> Statistics:
        return self.keywords.statistics(terms)

    def check_integrity(self) -> None:
        """Raise AssertionError when columns and postings disagree; for tests."""
        super().check_integrity()
        assert self.keywords.documents == len(self)
        self.keywords.check_integrity()


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
