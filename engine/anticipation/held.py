"""What one session's cache holds, as the server knows it, and why each item is worth its bytes."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from precall.engine.anticipation.fate import Fate
from precall.engine.anticipation.item_size import size_of
from precall.engine.memory.memory import IndexedMemory

AGEING: Final = 0.5
"""What is left of a proposal's worth with each later observation that something was proposed for. Chosen."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why items are held: a predictor expects that some of them are used.

    ``id`` grows. ``memory_ids``: best first. ``worth``: as `Proposal` has it. ``claims``: whether a coverage
    counts on all of them. ``cause``: the observation that the predictor looked at; those later age it.
    """

    id: int
    predictor: str
    memory_ids: Sequence[str]
    worth: float
    claims: bool
    cause: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """What must travel so that the cache follows: new items, items to drop, coverages that no longer hold."""

    added: Sequence[IndexedMemory]
    evicted_ids: Sequence[str]
    retired_coverage_ids: Sequence[int]

    def __bool__(self) -> bool:
        return bool(self.added or self.evicted_ids or self.retired_coverage_ids)


@dataclass(slots=True)
class _Item:
    size: int
    predictor: str
    used: bool = False


@dataclass(slots=True)
class _Standing:
    """A reason as it stands now: aged, and of the ids that are left of it."""

    memory_ids: dict[str, None]
    worth: float
    claims: bool


class HeldSet:
    """Ids and sizes of what a session holds, within a budget of items and bytes.

    An item is held for a reason: its rung is complete, or it was written while the session was open (these
    last), or a predictor proposed it. Where the budget asks for it, the reason of least worth gives way:
    first its claim goes, then its items from the last on. What has no reason is evicted. Invariants: an id is
    in ``self`` from the moment its push is queued until its eviction or invalidation is queued; and all that
    a claim counts on is.
    """

    def __init__(self, *, max_items: int, max_bytes: int, coverages_kept: int) -> None:
        """``coverages_kept``: most reasons with a claim, and most that are kept apart without one."""
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._coverages_kept = coverages_kept
        self._items: dict[str, _Item] = {}
        self._lasting: set[str] = set()
        self._reasons: dict[int, _Standing] = {}  # oldest first
        self._newest_cause = 0
        self._bytes = 0
        self._lasting_bytes = 0
        self._fates: Counter[tuple[str, bool]] = Counter()

    def __contains__(self, memory_id: str) -> bool:
        return memory_id in self._items

    def __len__(self) -> int:
        return len(self._items)

    @property
    def max_items(self) -> int:
        return self._max_items

    @property
    def ids(self) -> Collection[str]:
        return self._items.keys()

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def claims(self) -> int:
        """How many coverages stand."""
        return sum(reason.claims for reason in self._reasons.values())

    def predictor_of(self, memory_id: str) -> str | None:
        """Whoever brought it; None for what is not held."""
        item = self._items.get(memory_id)
        return None if item is None else item.predictor

    def fits(self, memories: Collection[IndexedMemory], sizes: Sequence[int] = ()) -> bool:
        """Whether all of these could be held beside what lasts. ``sizes``: of each, if they are known."""
        sized = zip(memories, sizes or map(size_of, memories), strict=True)
        new = [size for indexed, size in sized if indexed.memory.id not in self._lasting]
        fit = len(self._lasting) + len(new) <= self._max_items
        return fit and self._lasting_bytes + sum(new) <= self._max_bytes

    def add_lasting(
        self, memories: Sequence[IndexedMemory], predictor: str, sizes: Sequence[int] = ()
    ) -> Difference:
        """Hold these until they are removed, in place of what was proposed. They must fit; as `fits`."""
        sized = list(zip(memories, sizes or map(size_of, memories), strict=True))
        for indexed, size in sized:
            if indexed.memory.id not in self._lasting:
                self._lasting.add(indexed.memory.id)
                self._lasting_bytes += size
        arriving = [(indexed, size) for indexed, size in sized if indexed.memory.id not in self._items]
        new, new_sizes = [indexed for indexed, _ in arriving], [size for _, size in arriving]
        retired: list[int] = []
        evicted = self._make_room(new_sizes, float("inf"), retired)
        self._hold(new, new_sizes, predictor)
        return Difference(new, evicted, retired)

    def add(self, reason: Reason, new: Sequence[IndexedMemory]) -> Difference:
        """Hold what a predictor proposes, in place of what is worth less or as much and is older.

        ``new``: those of the reason's memories that are not held, best first. Those that find no room are
        left out, and then nothing is claimed.
        """
        self._age(reason.cause)
        arriving = {indexed.memory.id for indexed in new}
        proposed = self._reasons[reason.id] = _Standing(
            dict.fromkeys(i for i in reason.memory_ids if i in self._items or i in arriving),
            reason.worth,
            reason.claims,
        )
        retired = self._surplus(claiming=True, kept=self._coverages_kept)
        for reason_id in retired:
            self._unclaim(reason_id)
        sizes = [size_of(indexed) for indexed in new]
        evicted = self._make_room(sizes, reason.worth, retired, keep=reason.id)
        fitting = new[: self._fitting(sizes)]
        self._hold(fitting, sizes, reason.predictor)
        for indexed in new[len(fitting) :]:
            proposed.claims = False
            proposed.memory_ids.pop(indexed.memory.id, None)
        self._forget_empty()
        self._merge_surplus()
        return Difference(fitting, evicted, [each for each in retired if each != reason.id])

    def covers(self, coverage_id: int) -> bool:
        """Whether everything that the query found is held, so that its floor is true."""
        reason = self._reasons.get(coverage_id)
        return reason is not None and reason.claims

    def retire_coverages(self) -> Sequence[int]:
        """Give up every claim about what is not held; returns their ids."""
        retired = [reason_id for reason_id, reason in self._reasons.items() if reason.claims]
        for reason_id in retired:
            self._reasons[reason_id].claims = False
        self._forget_empty()
        return retired

    def remove(self, memory_id: str) -> bool:
        """Forget an invalidated item; whether it was held. Coverages stay true: it is gone everywhere."""
        item = self._items.pop(memory_id, None)
        if item is None:
            return False
        self._bytes -= item.size
        if memory_id in self._lasting:
            self._lasting.remove(memory_id)
            self._lasting_bytes -= item.size
        for reason in self._reasons.values():
            reason.memory_ids.pop(memory_id, None)
        self._forget_empty()
        return True

    # What became of what was pushed

    def use(self, memory_ids: Iterable[str]) -> None:
        """A read or an answer was built on these; ids that are not held are passed over."""
        for memory_id in memory_ids:
            if (item := self._items.get(memory_id)) is not None:
                item.used = True

    def end(self) -> None:
        """The session is over: everything leaves the cache."""
        self._fates.update((item.predictor, item.used) for item in self._items.values())

    def take_fates(self) -> Sequence[Fate]:
        """Of what left the cache for want of room or with its session since this was last asked."""
        fates, self._fates = self._fates, Counter()
        return [Fate(predictor, used, items) for (predictor, used), items in fates.items()]

    # Internal

    def _hold(self, new: Sequence[IndexedMemory], sizes: Sequence[int], predictor: str) -> None:
        """``sizes``: of as many or more."""
        for indexed, size in zip(new, sizes, strict=False):
            self._items[indexed.memory.id] = _Item(size, predictor)
            self._bytes += size

    def _age(self, cause: int) -> None:
        if cause > self._newest_cause:
            self._newest_cause = cause
            for earlier in self._reasons.values():
                earlier.worth *= AGEING

    def _fitting(self, sizes: Sequence[int]) -> int:
        """How many items of these sizes find room, from the first on."""
        room = self._max_bytes - self._bytes
        for count, size in enumerate(sizes[: self._max_items - len(self._items)]):
            room -= size
            if room < 0:
                return count
        return min(len(sizes), self._max_items - len(self._items))

    def _surplus(self, *, claiming: bool, kept: int) -> list[int]:
        """Of the reasons with or without a claim all but the ``kept`` worthiest, the least worth first."""
        having = [reason_id for reason_id, reason in self._reasons.items() if reason.claims == claiming]
        having.sort(key=lambda reason_id: self._reasons[reason_id].worth)
        return having[: max(len(having) - kept, 0)]

    def _merge_surplus(self) -> None:
        """Bound the reasons without a claim at no cost of items: the last one takes over what others held."""
        surplus = self._surplus(claiming=False, kept=self._coverages_kept - 1)
        for reason_id in surplus[1:]:
            least, other = self._reasons[surplus[0]], self._reasons.pop(reason_id)
            least.memory_ids = other.memory_ids | least.memory_ids

    def _make_room(
        self, sizes: Sequence[int], worth: float, retired: list[int], *, keep: int = 0
    ) -> list[str]:
        """Let reasons of at most this worth give way to items of these sizes, but not ``keep``.

        Returns what was evicted; ``retired`` is told of claims that went.
        """
        most_items, most_bytes = self._max_items - len(sizes), self._max_bytes - sum(sizes)
        evicted: list[str] = []
        yielding = [i for i, reason in self._reasons.items() if i != keep and reason.worth <= worth]
        for reason_id in sorted(yielding, key=lambda reason_id: self._reasons[reason_id].worth):
            reason = self._reasons[reason_id]
            while len(self._items) > most_items or self._bytes > most_bytes:
                if reason.claims:
                    self._unclaim(reason_id)
                    retired.append(reason_id)
                if not reason.memory_ids:
                    break
                last, _ = reason.memory_ids.popitem()
                if self._let_go(last):
                    evicted.append(last)
        self._forget_empty()
        return evicted

    def _unclaim(self, reason_id: int) -> None:
        """What is left of an answer serves no read by itself, and so is worth less."""
        self._reasons[reason_id].claims = False
        self._reasons[reason_id].worth *= AGEING

    def _let_go(self, memory_id: str) -> bool:
        """Of an item that a reason gave up: drop it unless another one has it; whether it went."""
        reasons = self._reasons.values()
        if memory_id in self._lasting or any(memory_id in reason.memory_ids for reason in reasons):
            return False
        item = self._items.pop(memory_id)
        self._bytes -= item.size
        self._fates[item.predictor, item.used] += 1
        return True

    def _forget_empty(self) -> None:
        """A reason that neither holds nor claims anything is none."""
        for reason_id in [i for i, each in self._reasons.items() if not each.claims and not each.memory_ids]:
            del self._reasons[reason_id]

    def check_integrity(self) -> None:
        """Raise AssertionError when the books are wrong; for tests."""
        assert self._bytes == sum(item.size for item in self._items.values())
        assert self._lasting_bytes == sum(self._items[memory_id].size for memory_id in self._lasting)
        assert len(self._items) <= self._max_items and self._bytes <= self._max_bytes
        reasons = self._reasons.values()
        assert sum(reason.claims for reason in reasons) <= self._coverages_kept
        reasoned = self._lasting.union(*(reason.memory_ids for reason in reasons))
        assert self._items.keys() <= reasoned, "an item is held for no reason"
        assert all(reason.memory_ids or reason.claims for reason in reasons)
        assert reasoned <= self._items.keys(), "a reason counts on what is not held"
