"""What no read may do, whatever happened before it."""

import asyncio
import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.client.cache import SessionCache
from precall.client.held_items import HeldItems
from precall.client.read import Read, ReadDecision, ReadSource, ReadStatus
from precall.engine.index.features import features_of
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.scoring import ranking
from precall.scoring.fusion import Fusion
from precall.scoring.memory_set import MemorySet
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights
from tests.fakes.world import DIMENSION, LADDER, World

TOLERANCE: Final = {ReadDecision.COMPLETE: 2e-3, ReadDecision.SURE: 4e-3}
"""Of a total. Client and server do not agree on the hour to the second, and recency hangs on it. Of a rung
that is not whole a client knows how rare words are from what it was told last.
"""
_LATELY: Final = 20


class Broken(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True)
class Asked:
    """A read as it was asked for. ``vector``: of the words. ``began``: when."""

    tenant_id: str
    rung: Rung
    words: str
    vector: NDArray[np.float32]
    limit: int
    min_version: int
    began: float


@dataclass
class Judge:
    """``maximum_age``: seconds that a cache may hold an item. ``removed``: id -> when its removal was acked;
    infinite while the writer still waits. ``served_lately``: ids. ``caches``: of processes that live.
    ``trusting``: caches serve what nothing proves to be the best, as a calibration would have them.
    """

    world: World
    maximum_age: float
    trusting: bool = False
    removed: dict[str, float] = field(default_factory=dict)
    served_lately: deque[str] = field(default_factory=lambda: deque(maxlen=_LATELY))
    caches: list[SessionCache] = field(default_factory=list)
    reads: int = 0
    from_cache: int = 0
    complete: int = 0
    sure: int = 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def cached(self) -> set[str]:
        """Ids of all that any cache holds now."""
        return {memory_id for cache in self.caches for memory_id in cache.stamps()}

    def ask_removal(self, memory_ids: Collection[str]) -> None:
        self.removed.update(dict.fromkeys(memory_ids, math.inf))

    def ack_removal(self, memory_ids: Collection[str]) -> None:
        self.removed.update(dict.fromkeys(memory_ids, self.now))

    def judge(self, read: Read, asked: Asked, held: HeldItems, elapsed: float) -> None:
        """``held``: what the cache has at this moment, which is ``elapsed`` by the client's clock.

        Raises Broken.
        """
        self.reads += 1
        self._judge_visibility(read, asked)
        if read.status is ReadStatus.DEGRADED:
            self._judge_age(read, held, elapsed)
            return
        if read.version < asked.min_version:
            raise Broken(f"version {asked.min_version} was asked for, {read.version} answered")
        self.served_lately.extend(item.memory.id for item in read.items)
        if read.source is not ReadSource.CACHE:
            return
        self.from_cache += 1
        self._judge_age(read, held, elapsed)
        self.complete += read.decision is ReadDecision.COMPLETE
        self.sure += read.decision is ReadDecision.SURE
        if read.decision is ReadDecision.COMPLETE or (read.decision in TOLERANCE and not self.trusting):
            self._judge_best(read, asked, held)

    def _judge_visibility(self, read: Read, asked: Asked) -> None:
        for item in read.items:
            memory = item.memory
            if self.removed.get(memory.id, math.inf) < asked.began:
                raise Broken(f"{memory.id} was served after its removal was acked ({read.source})")
            if not memory.text.startswith(f"{asked.tenant_id} "):
                raise Broken(f"{memory.id} belongs to another tenant")
            if not _sees(asked.rung, LADDER.rung(dict(memory.scope))):
                raise Broken(f"{memory.id} stands on a rung that the session does not see")

    def _judge_age(self, read: Read, held: HeldItems, elapsed: float) -> None:
        for item in read.items:
            if item.memory.id not in held:
                raise Broken(f"{item.memory.id} was served from a cache that does not hold it")
            age = elapsed - held[item.memory.id].held_since
            if age > self.maximum_age + 1e-6:
                raise Broken(f"{item.memory.id} was served {age:.2f} s after its push")

    def _judge_best(self, read: Read, asked: Asked, held: HeldItems) -> None:
        """The best of what stood at the version that the read claims, with the weights that it had then."""
        served = {item.memory.id for item in read.items}
        if read.version not in self.world.history[asked.tenant_id]:
            raise Broken(f"there is no version {read.version} yet")
        seen = {
            memory_id: each
            for memory_id, each in self.world.history[asked.tenant_id][read.version].items()
            if _sees(asked.rung, each.memory.rung)
        }
        # What was removed since may be gone from the cache already: it then claims its version without it.
        standing = {i: each for i, each in seen.items() if i not in self.removed or i in held}
        told = f"{read.decision} at version {read.version}"
        if unknown := served - standing.keys():
            raise Broken(f"{told}: {unknown} did not stand then")
        for memory_id in served:
            if not _alike(standing[memory_id].impacts, held.impacts(memory_id)):
                raise Broken(f"{told}: {memory_id} weighed something else then")
        # Of a rung that is not whole the cache was told how many there were, and counts nothing itself.
        counted = standing if read.decision is ReadDecision.COMPLETE else seen
        totals = {i: total for i, total in self._totals(counted, asked).items() if i in standing}
        if len(served) != min(asked.limit, len(totals)):
            raise Broken(f"{told}: {len(served)} served of {len(totals)}")
        left_out = max((total for memory_id, total in totals.items() if memory_id not in served), default=0.0)
        least = min((totals[memory_id] for memory_id in served), default=1.0)
        if left_out > least + TOLERANCE[read.decision]:
            raise Broken(f"{told}: {left_out:.4f} was left out, {least:.4f} served")

    def _totals(self, counted: Mapping[str, IndexedMemory], asked: Asked) -> dict[str, float]:
        table = MemorySet(DIMENSION)
        for memory_id, indexed in counted.items():
            table.add(memory_id, features_of(indexed))
        terms = QueryTerms.of(asked.words).terms
        candidates = table.candidates(asked.vector, table.statistics(terms).weights(terms))
        weights = RankingWeights().fused(Fusion.of(terms))
        ranked = ranking.rank(candidates, weights, now=self.world.clock.wall(), limit=len(counted))
        return {candidates.ids[each.row]: each.total for each in ranked}


def _sees(rung: Rung, other: Rung) -> bool:
    """Said once more here: what is judged may not be what judges."""
    return rung.values[: len(other.values)] == other.values


def _alike(some: Mapping[str, float], others: Mapping[str, float]) -> bool:
    return some.keys() == others.keys() and all(
        math.isclose(weight, others[term], rel_tol=1e-3) for term, weight in some.items()
    )
