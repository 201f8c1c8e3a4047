"""The recall canary: now and then a search is compared with the exact answer, off its caller's path."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from precall.engine.errors import ConfigurationError
from precall.engine.index.partition import Partition
from precall.engine.index.selection import Selection
from precall.engine.retrieval.query import Hit, Query
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import concatenate
from precall.scoring.ranking import rank

_ROUNDING = 1e-6


class RecallObserver(Protocol):
    """Called from the event loop: quick, and it must not raise."""

    def recall_checked(self, check: "RecallCheck") -> None:
        """What a sampled search was found to have."""
        ...


class SilentObserver:
    """Tells nobody."""

    def recall_checked(self, check: "RecallCheck") -> None: ...


@dataclass(frozen=True, slots=True)
class RecallCheck:
    """Results of the exact answer that a search had, and that it lacked."""

    found: int
    missed: int


@dataclass(frozen=True, slots=True)
class CanarySettings:
    """``share``: of the searches among quantised memories. ``busy_share``: of one core's time, at most."""

    share: float = 0.01
    busy_share: float = 0.02

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigurationError(f"canary.share must lie between 0 and 1, it is {self.share}")
        if not 0 < self.busy_share <= 1:
            raise ConfigurationError(
                f"canary.busy_share must be over 0 and at most 1, it is {self.busy_share}"
            )


class RecallCanary:
    """Made and used on one event loop. One check at a time, and after each a pause that keeps to
    ``busy_share``.
    """

    def __init__(
        self,
        observer: RecallObserver | None = None,
        settings: CanarySettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``clock`` in seconds; ``chance`` gives numbers from 0 up to 1."""
        self._observer = observer if observer is not None else SilentObserver()
        self._settings = settings if settings is not None else CanarySettings()
        self._clock = clock
        self._chance = chance
        self._checking: asyncio.Task[None] | None = None
        self._rest_until = float("-inf")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="precall-canary")

    def watch(self, partitions: Sequence[Partition], query: Query, hits: Sequence[Hit]) -> None:
        """Perhaps begin to check an answer. Returns at once."""
        if self._checking is not None or self._clock() < self._rest_until:
            return
        if not any(partition.quantized for partition in partitions) or self._chance() >= self._settings.share:
            return
        self._checking = asyncio.create_task(self._check(partitions, query, hits))

    async def settled(self) -> None:
        """Return when no check is in progress."""
        while self._checking is not None:
            await asyncio.wait({self._checking})

    def close(self) -> None:
        """Begin no check any more; one in progress ends by itself."""
        self._rest_until = float("inf")
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _check(self, partitions: Sequence[Partition], query: Query, hits: Sequence[Hit]) -> None:
        begin = self._clock()
        try:
            loop = asyncio.get_running_loop()
            check = await loop.run_in_executor(self._thread, check_recall, partitions, query, hits)
            if check is not None:
                self._observer.recall_checked(check)
        finally:
            took = self._clock() - begin
            rest = took * (1 / self._settings.busy_share - 1)
            self._rest_until = max(self._rest_until, self._clock() + rest)
            self._checking = None


def check_recall(partitions: Sequence[Partition], query: Query, hits: Sequence[Hit]) -> RecallCheck | None:
    """Compare hits with the exact answer, equal totals counting alike. None when a write came between."""
    term_weights = Statistics.sum([p.statistics(query.terms) for p in partitions], query.terms).weights(
        query.terms
    )
    weights = query.fused_weights
    selection = Selection(weights, query.now, query.limit, query.include_upcoming, query.filter)
    tables = [p.exact_candidates(query.vector, term_weights, selection) for p in partitions]
    whole = [table for table in tables if table is not None]
    if not whole or len(whole) < len(tables):
        return None
    best = rank(
        concatenate(whole),
        weights,
        now=query.now,
        limit=query.limit,
        include_upcoming=query.include_upcoming,
    )
    bar = best[-1].total - _ROUNDING if best else 0.0
    found = min(sum(hit.score.total >= bar for hit in hits), len(best))
    return RecallCheck(found, len(best) - found)
