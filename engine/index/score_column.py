"""Keyword scores of all rows, in a column that searches take turns with."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.selection import KeywordEvidence
from precall.scoring.memory_set import MemorySet


class ScoreColumn:
    """All zero between searches: making it anew costs more than a search. Its owner locks."""

    def __init__(self) -> None:
        self._scores: NDArray[np.float32] = np.zeros(0, np.float32)

    @contextmanager
    def of(self, rows: MemorySet, term_weights: Mapping[str, float]) -> Iterator[KeywordEvidence]:
        """What the terms say of each row, until the context ends."""
        if len(self._scores) < len(rows):
            self._scores = np.zeros(2 * len(rows), np.float32)
        touched = rows.keywords.add_scores(self._scores, term_weights)
        try:
            yield KeywordEvidence(self._scores, touched)
        finally:
            self._scores[touched] = 0

    def check_integrity(self) -> None:
        """Raise AssertionError when a search left something behind; for tests."""
        assert not self._scores.any()
