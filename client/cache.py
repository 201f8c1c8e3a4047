"""What one session holds of the server's memories, and what it may conclude from them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from precall.client import pushed
from precall.client.claims import MAX_COVERAGES, Claims
from precall.client.held_items import CachedItem, HeldItems
from precall.client.lookup import FoundItem, Lookup, lacks_asked_value
from precall.client.pushed import AppliedPush, Refusal
from precall.proto import anticipation_pb2
from precall.scoring import ranking
from precall.scoring.approximation import Approximation
from precall.scoring.calibration import CALIBRATIONS
from precall.scoring.coverage import CoveredRead, Decision
from precall.scoring.evidence import SERVED
from precall.scoring.fusion import Fusion, keyword_share
from precall.scoring.keyword import Statistics
from precall.scoring.negation import negates
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights


class SessionCache:
    """Pure and synchronous: no I/O, no clock of its own, one owner on one event loop.

    Items may arrive part by part; *claims* (complete rungs, coverages, the version) take effect with the last
    part of a push. Whatever the cache cannot trust costs it its claims, never the other way round: a refused
    item, an item dropped by age, a supersede whose successor has not arrived. Without claims it answers MISS.

    Invariants: every item's scope is on the session's lineage; items and bytes stay within their bounds; no
    item outlives ``maximum_age`` after its push, however often it is read.
    """

    def __init__(self, scope: Mapping[str, str], *, max_items: int, max_bytes: int) -> None:
        self._scope = dict(scope)
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._fingerprint = ""
        self._maximum_age = float("inf")
        self._scripts: Collection[str] = ()
        self._scores_alike = True
        self._reset_push: int | None = None
        self._doubtful_push: int | None = None
        self.clear()

    @property
    def items(self) -> int:
        return len(self._items)

    @property
    def wire_bytes(self) -> int:
        """Bytes that the held items took to send; at most ``max_bytes``."""
        return self._bytes

    @property
    def version(self) -> int:
        """The tenant's version that the claims reflect; 0 before the first push was complete."""
        return self._version

    @property
    def settled(self) -> bool:
        """A push was received whole since the last reset, so there are claims to judge by."""
        return self._settled and not self._between_parts

    @property
    def current(self) -> bool:
        """Settled, and no superseded memory waits for its successor."""
        return self.settled and self._version >= self._required_version

    @property
    def aged(self) -> bool:
        """Items were dropped by age since the last reset: only a new push makes the cache whole again."""
        return self._aged

    @property
    def complete(self) -> bool:
        """It holds every memory that the session may see."""
        return self._claims.complete

    @property
    def complete_rungs(self) -> tuple[str, ...]:
        """Ladder levels of which the cache holds every memory."""
        return self._claims.complete_rungs

    def adopt(
        self,
        *,
        fingerprint: str,
        maximum_age: float,
        scripts: Collection[str] = (),
        scores_alike: bool = True,
    ) -> None:
        """Drop everything and expect items of this model, each for at most ``maximum_age`` seconds.

        ``scripts``: those that the model reads; empty: all. ``scores_alike``: whether the server ranks by the
        formulas of this client; if not, every lookup is a MISS.
        """
        self.clear()
        self._scripts = scripts
        self._scores_alike = scores_alike
        self._fingerprint = fingerprint
        self._maximum_age = maximum_age

    def go_on(self) -> None:
        """Expect a push that says what of all this is still true; until it was whole, claim nothing."""
        self._claims.interrupt()
        self._await_claims()

    def stamps(self) -> Mapping[str, int]:
        """Id -> the server's stamp of everything held."""
        return {item.memory.id: item.stamp for item in self._items}

    def clear(self) -> None:
        """Hold nothing and claim nothing."""
        self._items = HeldItems(0)
        self._bytes = 0
        self._claims = Claims(self._scope)
        self._aged = False
        self._await_claims()

    def _await_claims(self) -> None:
        self._version = 0
        self._required_version = 0
        self._settled = False
        self._between_parts = False
        self._lacking = self._aged  # after it was said what is held
        self._reset_push = None
        self._doubtful_push = None

    def apply(self, push: anticipation_pb2.Push, *, elapsed: float) -> AppliedPush:
        """Take one part of a push; ``elapsed`` is the ``Clock.elapsed`` from which its items age."""
        if push.reset and push.push_id != self._reset_push:
            self.clear()
            self._reset_push = push.push_id
        for memory_id in push.evicted_ids:
            self._evict(memory_id)
        self._claims.retire(push.retired_coverage_ids)  # at once: claiming less is never wrong
        refused = self._add_items(push, elapsed)
        if refused:
            self._doubtful_push = push.push_id
            self._lose()
        # What was evicted may have backed a claim that only the last part corrects.
        self._between_parts = not push.last and (self._between_parts or bool(push.evicted_ids))
        settled = push.last and self._doubtful_push != push.push_id
        if settled:
            try:
                self._claims.take(
                    push, fingerprint=self._fingerprint, fits=self._items.fits, covers=not self._lacking
                )
            except ValueError:  # a claim whose bytes cannot be read is no claim, and voids those before it
                self._lose()
                settled = False
            else:
                self._version = max(self._version, push.version)
                self._settled = True
        return AppliedPush(settled, len(push.items) - refused.total(), refused)

    def invalidate(self, memory_ids: Iterable[str], *, version: int, superseded: bool) -> int:
        """Drop what may not be served any more; returns how many of them were held.

        A superseded memory has a successor: until that has been pushed, or a later version was confirmed,
        the cache is not ``current``.
        """
        dropped = sum(self._remove(memory_id) is not None for memory_id in memory_ids)
        if superseded and dropped:
            self._required_version = max(self._required_version, version)
        return dropped

    def confirm(self, version: int) -> None:
        """The server said: you have been sent everything that concerns you up to this version."""
        if self._settled:
            self._version = max(self._version, version)

    def lookup(
        self,
        query_vector: NDArray[np.float32] | None,
        query: QueryTerms,
        *,
        limit: int,
        now: float,
        elapsed: float,
        weights: RankingWeights,
        question: str = "",
        approximation: Approximation | None = None,
    ) -> Lookup:
        """The best ``limit`` held items for a query, ranked as the server ranks, and the decision.

        query_vector: float32 unit vector of shape ``(dimension,)``; None: keywords alone, decided MISS.
        now: the server's Unix seconds. elapsed: ``Clock.elapsed``. weights: their fusion is set here.
        question: the query's words, which may ask for a kind of value or deny something.
        approximation: of the query's vector, where a light encoder made it.
        """
        self._drop_aged(elapsed)
        if query_vector is not None and self._items.dimension not in (0, len(query_vector)):
            query_vector = None
        weights = weights.fused(Fusion.of(query.terms, keyword_share(query, self._scripts)))
        statistics = self.statistics(query.terms)
        candidates = self._items.candidates(query_vector, statistics.weights(query.terms))
        ranked = ranking.rank(candidates, weights, now=now, limit=max(limit + 1, SERVED))
        found = tuple(FoundItem(self._items[candidates.ids[each.row]], each) for each in ranked[:limit])
        if query_vector is None or not self.current or not self._scores_alike:
            return Lookup(Decision.MISS, found)
        if self._claims.complete:
            settled = approximation is None or approximation.settles(ranked, weights, limit=limit)
            return Lookup(Decision.COMPLETE if settled else Decision.BORDERLINE, found)
        read = CoveredRead(
            query_vector,
            query.terms,
            frozenset(self._claims.elsewhere(query.terms)),
            statistics,
            weights,
            negates(question),
            approximation,
        )
        judged = self._claims.judge(
            read, ranked, self._items, CALIBRATIONS.get(self._fingerprint), now=now, limit=limit
        )
        if lacks_asked_value(question, found):
            judged = judged.in_doubt
        return Lookup(judged.decision, found, judged.confidence)

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """Counts over all rungs of the session, for these terms."""
        return self._claims.statistics(terms)

    def check_integrity(self) -> None:
        """Raise AssertionError if an invariant is broken; for tests."""
        self._items.check_integrity()
        items = list(self._items)
        assert len(items) <= self._max_items and self._bytes <= self._max_bytes
        assert self._bytes == sum(item.wire_bytes for item in items)
        for item in items:
            levels = item.memory.scope.levels
            assert levels and all(self._scope.get(level) == value for level, value in levels.items())
        for name, rung in self._claims.rungs.items():
            held = [item for item in items if item.rung == name]
            assert rung.held == len(held)
            terms = Counter(term for item in held for term in self._items.terms(item.memory.id))
            assert rung.held_frequencies == terms
        assert len(self._claims.coverages) <= MAX_COVERAGES
        if not self._settled:
            assert not self._version and not self._claims.coverages and not self.complete_rungs

    def _add_items(self, push: anticipation_pb2.Push, elapsed: float) -> Counter[Refusal]:
        """Add what may be added; returns what was refused, by kind.

        All vectors since a reset have the dimension of the first one.
        """
        if not push.items:
            return Counter()
        read = pushed.read_items(
            push,
            scope=self._scope,
            fingerprint=self._fingerprint,
            dimension=self._items.dimension,
            elapsed=elapsed,
        )
        for memory_id in read.ids:
            self._remove(memory_id)
        chosen = read.fitting(self._max_items - self.items, self._max_bytes - self._bytes)
        if chosen and not self._items.dimension:
            self._items = HeldItems(read.vectors.shape[1])
        self._items.extend(read.block(chosen))
        for each in chosen:
            self._claims.rungs[each.item.rung].add(each.terms)
            self._bytes += each.item.wire_bytes
        return read.refused

    def _remove(self, memory_id: str) -> CachedItem | None:
        if memory_id not in self._items:
            return None
        item = self._items[memory_id]
        self._claims.rungs[item.rung].remove(self._items.terms(memory_id))
        self._items.pop(memory_id)
        self._bytes -= item.wire_bytes
        return item

    def _evict(self, memory_id: str) -> None:
        """The server let it go although it still stands: the rung is not complete, unless claimed anew."""
        item = self._remove(memory_id)
        if item is not None:
            self._claims.rungs[item.rung].complete = False

    def _drop_aged(self, elapsed: float) -> None:
        aged = self._items.held_before(elapsed - self._maximum_age)
        if aged:
            for memory_id in aged:
                self._remove(memory_id)
            self._aged = True
            self._lose()

    def _lose(self) -> None:
        """What the server believes to be held is not: until it knows, no query is covered."""
        self._lacking = True
        self._claims.withdraw()
