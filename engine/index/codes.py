"""int8 codes in FAISS over dense slots: the best totals by code, and what bounds the others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.coder import Coder, scanned_index
from precall.engine.index.faiss_library import faiss_library
from precall.engine.index.slot_set import SlotSet
from precall.scoring.ranking import RankingWeights

NO_SLOTS: Final = np.empty(0, np.int64)
NO_TOTALS: Final = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Question:
    """What codes are asked: a unit vector, how totals are weighed, and how many results are wanted in the
    end.
    """

    vector: NDArray[np.float32]
    weights: RankingWeights
    now: float
    limit: int


@dataclass(frozen=True, slots=True)
class Nearest:
    """The best totals by code, keywords left out. ``slots``, ``totals``: best first.

    ``slack``, ``aged``: as in `score_space.Lifted`. ``unseen``: no other slot has a greater total than this;
    minus infinity when there is no other. Neither holds for misfits, nor for rows on the far side, whose
    cosine is below 0: of them none has more than ``far_side``. ``dense_bound``: the most that its cosine can
    be expected to add to the total of each of some slots.
    """

    slots: NDArray[np.int64]
    totals: NDArray[np.float32]
    unseen: float
    slack: float
    aged: bool
    far_side: float
    dense_bound: Callable[[NDArray[np.int64]], NDArray[np.float32] | float]


class Codes(Protocol):
    """Codes of a table's rows, by slot. Not thread-safe; the owner locks."""

    coder: Coder
    misfits: SlotSet
    """Rows that their codes describe badly: they have to be looked at themselves."""

    first: int
    """As many candidates as nearly every search does with."""

    added: int
    """Rows added so far, those that went again included."""

    def __len__(self) -> int: ...

    def add(self, rows: NDArray[np.float32]) -> None:
        """Append rows of the score space, shape ``(n, width)``."""
        ...

    def remove(self, slot: int) -> None:
        """Drop a row; the last one takes its slot, and nothing of the code stays."""
        ...

    def nearest(
        self,
        question: Question,
        count: int,
        allowed: NDArray[np.bool_] | None,
        least: float | None = None,
    ) -> Nearest:
        """The best ``count`` slots or all, of those that are ``allowed`` (bool, ``(len,)``; None: of all).

        ``least``: slots that may have as much are not left out unread; None: as the codes judge.
        """
        ...

    def check_integrity(self, rows: NDArray[np.float32]) -> None:
        """Raise AssertionError unless every slot's code is that of the row; for tests."""
        ...


class FlatCodes:
    """Every code is looked at: what `Nearest.unseen` says is certain."""

    # Nearly always enough for ten results. 32 save nothing among 10,000 rows, 256 cost 14 %.
    first = 96

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.misfits = SlotSet()
        self.added = 0
        self._index: Any = scanned_index(coder.space.width)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, rows: NDArray[np.float32]) -> None:
        coded = self.coder.encode(rows)
        for offset in np.flatnonzero(coded.misfits).tolist():
            self.misfits.add(len(self) + offset)
        self._index.add_sa_codes(coded.codes)
        self.added += len(rows)

    def remove(self, slot: int) -> None:
        faiss = faiss_library()
        index = self._index
        size, last = index.code_size, len(self) - 1
        codes = faiss.rev_swig_ptr(index.codes.data(), (last + 1) * size).reshape(last + 1, size)
        codes[slot] = codes[last]
        codes[last] = 0
        index.codes.resize(last * size)
        index.ntotal = last
        self.misfits.row_removed(slot, last)

    def nearest(
        self,
        question: Question,
        count: int,
        allowed: NDArray[np.bool_] | None,
        least: float | None = None,
    ) -> Nearest:
        faiss, coder = faiss_library(), self.coder
        lifted = coder.space.query(question.vector, question.weights, question.now, coder.tolerance)
        asked = coder.ask(lifted.vector)
        # A single query takes one thread; waking OpenMP's team for it costs milliseconds when cores are busy.
        faiss.omp_set_num_threads(1)
        parameters = None
        if allowed is not None:
            bitmap = np.packbits(allowed, bitorder="little")
            parameters = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bitmap))
        size = len(self)
        count = min(count, size)
        slots, totals = np.empty(count, np.int64), np.empty(count, np.float32)
        self._index.search_c(
            1, faiss.swig_ptr(asked.vector), count, faiss.swig_ptr(totals), faiss.swig_ptr(slots), parameters
        )
        totals += np.float32(asked.offset)
        weights = question.weights
        most = weights.relevance * (1 - weights.fusion.share)
        far_side = weights.importance + weights.recency
        unseen = float("-inf")
        if count and slots[-1] < 0:
            kept = int(np.argmax(slots < 0))
            slots, totals = slots[:kept], totals[:kept]
        elif count < size:
            unseen = float(totals[-1]) + lifted.slack
        return Nearest(slots, totals, unseen, lifted.slack, lifted.aged, far_side, lambda slots: most)

    def check_integrity(self, rows: NDArray[np.float32]) -> None:
        assert len(self) == len(rows)
        assert self._index.codes.size() == len(self) * self._index.code_size
        coded = self.coder.encode(rows)
        assert np.array_equal(_held_codes(self._index), coded.codes)
        assert set(self.misfits.array().tolist()) == set(np.flatnonzero(coded.misfits).tolist())


def _held_codes(index: Any) -> NDArray[np.uint8]:
    faiss = faiss_library()
    codes: NDArray[np.uint8] = faiss.vector_to_array(index.codes).reshape(-1, index.code_size)
    return codes
