"""Which codes a table has: none while it is small, flat ones, then listed ones; and when they are made
anew.
"""

import logging
import threading
from contextlib import AbstractContextManager
from typing import Final

import numpy as np

from precall.engine.index.coder import Coder
from precall.engine.index.codes import Codes, FlatCodes
from precall.engine.index.listed import ListedCodes
from precall.engine.index.listing import Listing
from precall.engine.memory.ladder import Rung
from precall.scoring.memory_set import MemorySet

_TURNOVER: Final = 3
"""Times the rows that codes were trained on: when so many came after them, they are made anew. Chosen,
not tuned: the work of it stays in proportion to the writing, and a table is a quarter known at the least.
"""

_MISFIT_SHARE: Final = 0.02
_MISFITS_ALWAYS_BORNE: Final = 64
"""Together the most misfits before codes are made anew. Each is looked at in every search; chosen, not tuned:
fewer train more often, and the constant keeps a small table from training after every other write.
"""

_TRAINING_SAMPLE: Final = 5_000
"""Rows to train flat codes on: with one in a thousand cut off a side, five lie beyond each end of a range,
which is enough to know it, and sorting them is soon done. Chosen, not tuned.
"""

_CHUNK: Final = 8_192
"""Rows at a time, so that what stands beside the table while it is coded stays within some tens of MB."""

_GROWTH_BEFORE_ANOTHER_TRY: Final = 0.2
"""A listing that failed is tried again when so many rows came after it, as a share of the table: what was in
its way may be gone, and if it is not, the tries stay few beside the writes.
"""

_logger = logging.getLogger(__name__)


class CodeKeeper:
    """The codes of one table. The writer calls in; `codes` is read under the owner's lock.

    Invariant: under the lock ``codes``, if there are any, have a row for each of the table's.
    """

    def __init__(
        self,
        rung: Rung,
        held: MemorySet,
        lock: AbstractContextManager[bool],
        *,
        exact_below: int,
        listed_from: int,
    ) -> None:
        """``rung``: whose table it is, for the log. ``lock``: its owner's."""
        self.codes: Codes | None = None
        self._rung = rung
        self._held = held
        self._lock = lock
        self._exact_below = max(exact_below, 1)
        self._listed_from = listed_from
        self._trained_on = 0
        self._added = 0
        self._listed_again_from = 0  # of `_added`
        self._listing: Listing | None = None
        self._thread: threading.Thread | None = None

    def rows_added(self, count: int) -> None:
        """Under the lock: the table's last ``count`` rows are new."""
        self._added += count
        if self.codes is not None and count:
            self.codes.add(self.codes.coder.space.rows_of(self._held, slice(len(self._held) - count, None)))

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
            or len(codes.misfits) > _MISFITS_ALWAYS_BORNE + _MISFIT_SHARE * size
        )

    def _make_flat(self, size: int) -> None:
        # Outside the lock: only the writer, who is here, changes what this reads, and readers go on.
        held = self._held
        sample = np.linspace(0, size - 1, min(size, _TRAINING_SAMPLE)).astype(np.int64)
        coder = Coder(held.vectors[sample], held.importance[sample], held.event_seconds[sample])
        codes = FlatCodes(coder)
        for begin in range(0, size, _CHUNK):
            codes.add(coder.space.rows_of(held, slice(begin, min(begin + _CHUNK, size))))
        with self._lock:
            held.halve()
            self.codes = codes
        self._trained_on = size

    def _list_in_background(self) -> None:
        """One listing at a time. While there is none, the codes there are stay."""
        if self._listing is None and self._added >= self._listed_again_from:
            listing = self._listing = Listing(self._held, self._lock)
            self._thread = threading.Thread(
                target=self._list, args=(listing,), name="precall-listing", daemon=True
            )
            self._thread.start()

    def _list(self, listing: Listing) -> None:
        try:
            listing.run(self._install)
        except Exception:
            with self._lock:
                more = max(int(_GROWTH_BEFORE_ANOTHER_TRY * len(self._held)), 1)
                self._listed_again_from = self._added + more
                self._listing = None
            _logger.exception(
                "the memories of rung %s could not be put in lists: its codes stay as they are, and the next "
                "try comes with %d more memories",
                "/".join(self._rung.values),
                more,
            )

    def _install(self, codes: ListedCodes) -> None:
        self.codes, self._trained_on, self._listing = codes, len(codes), None

    def check_integrity(self) -> None:
        """Raise AssertionError when codes and table disagree; for tests."""
        if self.codes is not None:
            self.codes.check_integrity(self.codes.coder.space.rows_of(self._held, slice(None)))
