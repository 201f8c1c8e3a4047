"""Which codes a table has: none while it is small, flat ones, then listed ones; and when they are made
anew.
"""

import threading
from contextlib import AbstractContextManager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.coder import Coder
from precall.engine.index.codes import Codes, FlatCodes
from precall.engine.index.listed import ListedCodes
from precall.engine.index.listing import Listing
from precall.scoring.memory_set import MemorySet

_TURNOVER: Final = 3
"""Times the rows that codes were trained on: when so many came after them, they are made anew."""

_MISFIT_SHARE: Final = 0.02
_FEW_MISFITS: Final = 64
_TRAINING_SAMPLE: Final = 5_000
_CHUNK: Final = 8_192


class CodeKeeper:
    """The codes of one table. The writer calls in; `codes` is read under the owner's lock.

    Invariant: under the lock ``codes``, if there are any, have a row for each of the table's.
    """

    def __init__(
        self, held: MemorySet, lock: AbstractContextManager[bool], *, exact_below: int, listed_from: int
    ) -> None:
        self.codes: Codes | None = None
        self._held = held
        self._lock = lock
        self._exact_below = max(exact_below, 1)
        self._listed_from = listed_from
        self._trained_on = 0
        self._listing: Listing | None = None
        self._thread: threading.Thread | None = None

    def rows_added(self, count: int) -> None:
        """Under the lock: the table's last ``count`` rows are new."""
        if self.codes is not None and count:
            self.codes.add(self._rows(self.codes.coder, len(self._held) - count, len(self._held)))

    def row_removed(self, slot: int, last: int) -> None:
        """Under the lock: the table's last row has left ``last`` for ``slot``, or it went itself."""
        if self.codes is not None:
            self.codes.remove(slot)
        if self._listing is not None:
            self._listing.row_removed(slot, last)

    def adapt(self) -> None:
        """After a write, without the lock: make the codes that are due. Listed ones follow in the
        background.
        """
        size = len(self._held)
        if size and self._due(size):
            if isinstance(self.codes, ListedCodes):
                self._list_in_background()
            else:
                self._make_flat(size)
        if size >= self._listed_from and isinstance(self.codes, FlatCodes):
            self._list_in_background()

    def abandon(self) -> None:
        """The table is no longer wanted."""
        if self._listing is not None:
            self._listing.abandon()

    def wait_until_listed(self) -> None:
        """Return when no listing is in progress."""
        if self._thread is not None:
            self._thread.join()

    def _due(self, size: int) -> bool:
        codes = self.codes
        if codes is None:
            return size >= self._exact_below
        return (
            codes.added >= self._trained_on * (1 + _TURNOVER)
            or len(codes.misfits) > _FEW_MISFITS + _MISFIT_SHARE * size
        )

    def _make_flat(self, size: int) -> None:
        # Outside the lock: only the writer, who is here, changes what this reads, and readers go on.
        held = self._held
        sample = np.linspace(0, size - 1, min(size, _TRAINING_SAMPLE)).astype(np.int64)
        coder = Coder(held.vectors[sample], held.importance[sample], held.event_seconds[sample])
        codes = FlatCodes(coder)
        for begin in range(0, size, _CHUNK):
            codes.add(self._rows(coder, begin, min(begin + _CHUNK, size)))
        with self._lock:
            held.halve()
            self.codes = codes
        self._trained_on = size

    def _list_in_background(self) -> None:
        """At most one listing at a time; one that failed is not tried again, and the codes there are stay."""
        if self._listing is None:
            listing = self._listing = Listing(self._held, self._lock)
            self._thread = threading.Thread(
                target=listing.run, args=(self._install,), name="precall-listing", daemon=True
            )
            self._thread.start()

    def _install(self, codes: ListedCodes) -> None:
        self.codes, self._trained_on, self._listing = codes, len(codes), None

    def _rows(self, coder: Coder, begin: int, end: int) -> NDArray[np.float32]:
        held = self._held
        return coder.space.rows(
            held.vectors[begin:end], held.importance[begin:end], held.event_seconds[begin:end]
        )

    def check_integrity(self) -> None:
        """Raise AssertionError when codes and table disagree; for tests."""
        if self.codes is not None:
            self.codes.check_integrity(self._rows(self.codes.coder, 0, len(self._held)))
