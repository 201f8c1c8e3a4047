"""Codes in lists, of which a search looks at those that may hold one of the best: FAISS' IVF by our choice of
lists.

A list holds what is alike in two ways: a cluster of vectors, and a tier of what importance and age add. With
tiers the many memories that could only be found for their words are not read where the important ones are.
"""

from array import array
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.clusters import Clusters
from precall.engine.index.coder import Asked, Coded, Coder, scanned_kind
from precall.engine.index.codes import NO_SLOTS, NO_TOTALS, Nearest, Question
from precall.engine.index.faiss_library import faiss_library
from precall.engine.index.score_space import HALF_LIFE, ScoreSpace
from precall.engine.index.slot_set import SlotSet
from precall.scoring.ranking import RankingWeights

TIER_QUANTILES: Final = (0.5, 0.8, 0.95)
"""Of merits, where tiers part: the finer the rarer, as it is the best that tell which lists matter. Without
tiers a search among 50,000 takes about twice as long; five or six make no difference that could be told.
"""

_LARGEST: Final = float(np.finfo(np.float32).max)
_SMALLEST: Final = float(np.finfo(np.float32).tiny)
"""For a freshness of 0, so that no power of it is less than that of a row which was rounded to 0."""

_USUAL: Final = RankingWeights()
_FAR_AHEAD: Final = 60.0
"""Half-lives from a question to the origin (many events that never end, say): what is fresh now is as good as
0 there, and float32 could not bring it back.
"""

_FIRST_LISTS: Final = 64
"""Lists that are read to learn which others can matter. 256 cost a search among 100,000 a quarter more; 16
save 7 % there, and would say less where a filter leaves few rows in each.
"""


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Rows of the score space ready to be appended: codes, and the `merit` and the list of each, ``(n,)``."""

    rows: NDArray[np.float32]
    coded: Coded
    merits: NDArray[np.float32]
    lists: NDArray[np.int64]

    def first(self, count: int) -> "ListedRows":
        coded = Coded(self.coded.codes[:count], self.coded.misfits[:count])
        return ListedRows(self.rows[:count], coded, self.merits[:count], self.lists[:count])


class ListedCodes:
    """Not every code is looked at. A list is left out if, by its centre, its spread and its best importance
    and age, none of its rows can be among the best; the spread is what 99 of 100 neighbours keep to, so now
    and then one is missed. `Nearest.unseen` is as certain as that.
    """

    # The larger a table, the nearer the tenth best is to the hundredth: 96 save 8 % without words and 0 with
    # them, 768 cost 40 % and 3.
    first = 256

    def __init__(self, coder: Coder, clusters: Clusters, tiers: NDArray[np.float32]) -> None:
        """``tiers``: ascending, the least of importance and age together (`merit`) of every tier but the
        lowest.
        """
        faiss = faiss_library()
        self.coder = coder
        self.misfits = SlotSet()
        self.added = 0
        self.clusters = clusters
        self._tiers = tiers
        lists = len(clusters) * (len(tiers) + 1)
        self._coarse = faiss.IndexFlatIP(coder.space.width)  # FAISS wants one; the lists are chosen here
        self._index: Any = faiss.IndexIVFScalarQuantizer(
            self._coarse,
            coder.space.width,
            lists,
            scanned_kind(),
            faiss.METRIC_INNER_PRODUCT,
            False,
        )
        self._index.is_trained = True
        self._invlists: Any = self._index.invlists
        self._list_of = array("I")
        self._offset_of = array("I")
        # Upper bounds over a list's rows, never lowered: what only makes a search read a list in vain.
        self._most_important = np.zeros(lists, np.float32)
        self._freshest = np.zeros(lists, np.float32)
        self._best_merit = np.zeros(lists, np.float32)
        self._barred = np.full(lists, -np.inf, np.float32)  # 0 for a list that has ever held a row
        self._unused = np.zeros(lists, np.float32)

    def __len__(self) -> int:
        return len(self._list_of)

    def add(self, rows: NDArray[np.float32]) -> None:
        self.append(self.prepare(rows))

    def prepare(self, rows: NDArray[np.float32]) -> ListedRows:
        """The slow part of `add`, which reads nothing that changes: any thread may do it, without the
        lock.
        """
        merits = merit(self.coder.space, rows)
        assigned = self.clusters.assign(rows[:, : self.coder.space.dimension])
        tiers = np.searchsorted(self._tiers, merits, side="right")
        coded = self.coder.encode(rows)
        # What lies apart, being of a topic that came later, say: no bound of a list holds for it.
        coded = Coded(coded.codes, coded.misfits | (assigned.distances > self.clusters.reach))
        return ListedRows(rows, coded, merits, assigned.clusters * (len(self._tiers) + 1) + tiers)

    def append(self, prepared: ListedRows) -> None:
        for offset in range(len(prepared.rows)):
            self._list_of.append(0)
            self._offset_of.append(0)
            self._put(len(self) - 1, prepared, offset)
        self._index.ntotal = len(self)
        self.added += len(prepared.rows)

    def replace(self, slot: int, row: NDArray[np.float32]) -> None:
        """Another row, shape ``(width,)``, takes the place of the one at ``slot``."""
        self._take(slot)
        self.misfits.drop(slot)
        self._put(slot, self.prepare(row.reshape(1, -1)), 0)

    def _put(self, slot: int, prepared: ListedRows, offset: int) -> None:
        faiss = faiss_library()
        number = int(prepared.lists[offset])
        self._list_of[slot], self._offset_of[slot] = number, self._invlists.list_size(number)
        self._invlists.add_entry(number, slot, faiss.swig_ptr(prepared.coded.codes[offset]))
        if prepared.coded.misfits[offset]:
            self.misfits.add(slot)
        dimension = self.coder.space.dimension
        importance, fresh = prepared.rows[offset, dimension : dimension + 2].tolist()
        self._most_important[number] = max(self._most_important[number], importance)
        self._freshest[number] = max(self._freshest[number], fresh)
        self._best_merit[number] = max(self._best_merit[number], prepared.merits[offset])
        self._barred[number] = 0

    def remove(self, slot: int) -> None:
        self._take(slot)
        last = len(self) - 1
        if slot != last:
            self._list_of[slot], self._offset_of[slot] = self._list_of[last], self._offset_of[last]
            ids, _ = self._entries(self._list_of[slot])
            ids[self._offset_of[slot]] = slot
        self._list_of.pop()
        self._offset_of.pop()
        self._index.ntotal = last
        self.misfits.row_removed(slot, last)

    def _take(self, slot: int) -> None:
        """Take a slot's code out of its list, whose last one moves into the hole."""
        number, offset = self._list_of[slot], self._offset_of[slot]
        end = self._invlists.list_size(number) - 1
        ids, codes = self._entries(number)
        if offset != end:
            ids[offset], codes[offset] = ids[end], codes[end]
            self._offset_of[int(ids[offset])] = offset
        codes[end] = 0
        self._invlists.resize(number, end)

    def _entries(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """A list's slots and codes, as views."""
        faiss = faiss_library()
        size, width = self._invlists.list_size(number), self._index.code_size
        ids = faiss.rev_swig_ptr(self._invlists.get_ids(number), size)
        return ids, faiss.rev_swig_ptr(self._invlists.get_codes(number), size * width).reshape(size, width)

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
        merits = self._merits(question)
        far_side = float(merits.max())
        dense = self._dense_bounds(question)
        bounds = (merits.reshape(len(dense), -1) + dense[:, None]).reshape(-1)
        faiss.omp_set_num_threads(1)
        selector = None
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        count = min(max(count, question.limit), len(self))
        slots, totals = NO_SLOTS, NO_TOTALS
        if least is None:
            cut = max(len(bounds) - _FIRST_LISTS, 0)
            first = bounds.argpartition(cut)[cut:]
            slots, totals = self._scan(asked, first, count, selector)
            bounds[first] = -np.inf
            least = -_LARGEST
            if len(totals) >= question.limit:
                least = float(totals[question.limit - 1]) - lifted.slack
        others = (bounds >= least).nonzero()[0]
        if len(others):
            more_slots, more_totals = self._scan(asked, others, count, selector)
            slots, totals = np.concatenate([slots, more_slots]), np.concatenate([totals, more_totals])
            bounds[others] = -np.inf
            order = (-totals).argsort()[:count]
            slots, totals = slots[order], totals[order]
        unseen = float(bounds.max())
        if len(totals) >= count:
            unseen = max(unseen, float(totals[-1]) + lifted.slack)
        dense_bound = partial(self._dense_bound_of, dense)
        return Nearest(slots, totals, unseen, lifted.slack, lifted.aged, far_side, dense_bound)

    def _dense_bound_of(
        self, by_cluster: NDArray[np.float32], slots: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        lists = np.frombuffer(self._list_of, np.uint32)[slots]
        return by_cluster[lists // (len(self._tiers) + 1)]

    def _merits(self, question: Question) -> NDArray[np.float32]:
        """The most that importance and recency add to a row of each list, float32, shape ``(lists,)``."""
        weights, space = question.weights, self.coder.space
        merits: NDArray[np.float32]
        fresh = self._freshest
        if weights.half_life_seconds != HALF_LIFE:
            with np.errstate(over="ignore"):
                power = np.float32(HALF_LIFE / weights.half_life_seconds)
                fresh = np.maximum(fresh, np.float32(_SMALLEST)) ** power
        half_lives = (space.origin - question.now) / weights.half_life_seconds
        if half_lives > _FAR_AHEAD:
            merits = self._most_important * np.float32(weights.importance)
            merits += np.float32(weights.recency)
            merits += self._barred
            return merits
        since = 2.0 ** max(half_lives, -126.0)  # both it and what it divides are float32's
        merits = np.minimum(fresh, np.float32(1 / since))
        merits *= np.float32(since * weights.recency)
        merits += self._most_important * np.float32(weights.importance)
        if weights.half_life_seconds == HALF_LIFE:
            # Where the most important row is not the latest one, `merit` knows it; other weights stretch it.
            stretch = max(
                weights.importance / _USUAL.importance, weights.recency * max(since, 1.0) / _USUAL.recency
            )
            np.minimum(merits, self._best_merit * np.float32(stretch), out=merits)
        merits += self._barred
        return merits

    def _dense_bounds(self, question: Question) -> NDArray[np.float32]:
        """The most that a cosine can be expected to add to a total, by cluster, float32."""
        cosines = np.vecdot(self.clusters.centres, question.vector) + np.float32(self.clusters.spread)
        weight = np.float32(question.weights.relevance * (1 - question.weights.fusion.share))
        bounds: NDArray[np.float32] = np.maximum(cosines, np.float32(0)) * weight
        return bounds

    def _scan(
        self, asked: Asked, lists: NDArray[np.int64], count: int, selector: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Slots and totals of the best ``count`` rows of these lists, best first."""
        faiss = faiss_library()
        slots, totals = np.empty(count, np.int64), np.empty(count, np.float32)
        # FAISS wants the distances of centres, which codes of whole vectors do not need.
        unused = self._unused[: len(lists)]
        parameters = faiss.SearchParametersIVF(nprobe=len(lists), sel=selector)
        self._index.search_preassigned_c(
            1, faiss.swig_ptr(asked.vector), count, faiss.swig_ptr(lists), faiss.swig_ptr(unused),
            faiss.swig_ptr(totals), faiss.swig_ptr(slots), False, parameters,
        )  # fmt: skip
        totals += np.float32(asked.offset)
        if count and slots[-1] < 0:
            found = int(np.argmax(slots < 0))
            slots, totals = slots[:found], totals[:found]
        return slots, totals

    def check_integrity(self, rows: NDArray[np.float32]) -> None:
        assert len(self) == len(rows) == self._index.ntotal
        coded = self.prepare(rows).coded
        assert set(self.misfits.array().tolist()) == set(np.flatnonzero(coded.misfits).tolist())
        importance = rows[:, self.coder.space.dimension]
        for slot, (number, offset) in enumerate(zip(self._list_of, self._offset_of, strict=True)):
            ids, codes = self._entries(number)
            assert ids[offset] == slot and np.array_equal(codes[offset], coded.codes[slot])
            assert self._most_important[number] >= importance[slot]
        lists = self._index.nlist
        assert sum(self._invlists.list_size(number) for number in range(lists)) == len(self)


def merit(space: ScoreSpace, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """What importance and age at the origin add to each row's total, by the default weights; float32,
    ``(n,)``.
    """
    importance, fresh = rows[:, space.dimension], rows[:, space.dimension + 1]
    merits: NDArray[np.float32] = np.minimum(fresh, np.float32(1)) * np.float32(_USUAL.recency)
    merits += importance * np.float32(_USUAL.importance)
    return merits
