"""Makes listed codes of a growing table in the background, while it is read and written."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import numpy as np

from precall.engine.index import clusters
from precall.engine.index.coder import Coder
from precall.engine.index.listed import TIER_QUANTILES, ListedCodes, ListedRows, merit
from precall.scoring.memory_set import MemorySet

_CHUNK: Final = 2_048
"""Rows at a time: gathering and appending them holds the lock, and with it every search here."""

_ONE_AT_A_TIME: Final = threading.Semaphore(1)
"""However many partitions are due, their listings take one core."""


class Listing:
    """One building of `ListedCodes`, slot after slot; the table's owner tells it of each removal meanwhile.

    Invariant: under the owner's lock the codes so far are those of the table's first rows.
    """

    def __init__(self, held: MemorySet, lock: AbstractContextManager[bool]) -> None:
        self._held = held
        self._lock = lock
        self._codes: ListedCodes | None = None
        self._stale: set[int] = set()
        self._abandoned = False

    def abandon(self) -> None:
        """Stop at the next chunk: the table is no longer wanted."""
        self._abandoned = True

    def row_removed(self, slot: int, last: int) -> None:
        """To be called under the lock, when the table's last row has left ``last`` for ``slot``, or went
        itself.
        """
        codes = self._codes
        # Also ``last``: a row may arrive there before the chunk in hand is appended.
        self._stale.update((slot, last))
        if codes is not None and slot < len(codes):
            if last < len(codes):
                codes.remove(slot)
            else:
                self._replace(codes, slot)

    def run(self, install: Callable[[ListedCodes], None]) -> None:
        """Call ``install`` under the lock with the codes of all rows, unless this is abandoned before."""
        with _ONE_AT_A_TIME:
            codes = self._train()
            while True:
                with self._lock:
                    if self._abandoned:
                        return
                    if len(codes) == len(self._held):
                        install(codes)
                        return
                    self._codes = codes
                    self._stale.clear()
                    begin, end = len(codes), min(len(codes) + _CHUNK, len(self._held))
                    rows = codes.coder.space.rows_of(self._held, slice(begin, end))
                prepared = codes.prepare(rows)
                with self._lock:
                    self._append(codes, begin, prepared)

    def _append(self, codes: ListedCodes, begin: int, prepared: ListedRows) -> None:
        """What was prepared from ``begin`` on, as far as it is still true."""
        if len(codes) != begin:  # removals went past the chunk and into the rows before it
            return
        end = min(begin + len(prepared.rows), len(self._held))
        codes.append(prepared.first(end - begin))
        for slot in self._stale:
            if begin <= slot < end:
                self._replace(codes, slot)

    def _replace(self, codes: ListedCodes, slot: int) -> None:
        codes.replace(slot, codes.coder.space.rows_of(self._held, slice(slot, slot + 1))[0])

    def _train(self) -> ListedCodes:
        with self._lock:
            size = len(self._held)
            count = cluster_count(size)
            sample = np.linspace(0, size - 1, min(size, clusters.sample_size(count))).astype(np.int64)
            vectors = self._held.vectors[sample]
            importance, events = self._held.importance[sample], self._held.event_seconds[sample]
        coder = Coder(vectors, importance, events)
        merits = merit(coder.space, coder.space.rows(vectors, importance, events))
        tiers = np.quantile(merits, TIER_QUANTILES).astype(np.float32)
        return ListedCodes(coder, clusters.train(vectors, merits, count), tiers)


def cluster_count(size: int) -> int:
    """As many clusters as make reading their centres and reading their rows cost about the same; no more than
    4,096, as training and each centre's product with the query grow with them. Chosen, not tuned.
    """
    return max(16, min(int(2 * np.sqrt(size)), 4_096))
