"""Rungs as they stood at an earlier moment, read from the disk for one search and searched exactly."""

import asyncio
import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Final

from precall.engine.errors import ConfigurationError, InvalidVector, Overloaded, TenantQuarantined
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.engine.memory.migration import StoredModel
from precall.engine.memory.store import TenantStore

_EXACT: Final = PartitionSettings(exact_below=sys.maxsize, listed_from=sys.maxsize)
_RETRY_SECONDS: Final = 1.0
"""About what reading a rung of some ten thousand memories takes."""


@dataclass(frozen=True)
class PastSettings:
    """``at_once``: searches that may hold rungs of the past in memory. ``waiting``: more that may wait.

    ``kept``: ladders that stay in memory for a repeated search, none of more than ``kept_memories`` and each
    for ``kept_seconds`` at most, so that nothing of a destroyed memory stays for longer.
    """

    at_once: int = 2
    waiting: int = 16
    kept: int = 8
    kept_memories: int = 5_000
    kept_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise ConfigurationError(f"past.at_once must be at least 1, not {self.at_once}")
        for name in ("waiting", "kept", "kept_memories", "kept_seconds"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"past.{name} must not be negative, it is {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class _Moment:
    """``store``, and not its tenant's name: one of that name may have been deleted and made anew."""

    store: TenantStore
    model: StoredModel
    rung: Rung
    at: datetime
    version: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """``end`` is the timer that lets go of the partitions."""

    partitions: Sequence[Partition]
    end: asyncio.TimerHandle


class Past:
    """The earlier states of all tenants. Made and used on one event loop."""

    def __init__(self, settings: PastSettings | None = None) -> None:
        self._settings = settings if settings is not None else PastSettings()
        self._turns = asyncio.Semaphore(self._settings.at_once)
        self._asked = 0
        self._kept: OrderedDict[_Moment, _Kept] = OrderedDict()

    @asynccontextmanager
    async def lineage(
        self, store: TenantStore, model: StoredModel, rung: Rung, at: datetime, *, version: int
    ) -> AsyncIterator[Sequence[Partition]]:
        """The partitions that a reader on ``rung`` could see at a moment, the narrowest first, with the
        vectors of ``model``.

        ``version``: the store's, when the caller last looked. What was destroyed by then is not there; what
        is destroyed meanwhile may be. Raises Overloaded before any work, and what `load_rung_as_of` raises:
        FingerprintMismatch for a model that the tenant has not (any more).
        """
        settings = self._settings
        if self._asked >= settings.at_once + settings.waiting:
            raise Overloaded(
                f"{self._asked} searches as_of an earlier moment are in progress, and no more may wait",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._asked += 1
        try:
            async with self._turns:
                yield await self._read(_Moment(store, model, rung, at, version))
        finally:
            self._asked -= 1

    async def _read(self, moment: _Moment) -> Sequence[Partition]:
        # What has expired is not destroyed yet, and yet it must not be shown: a copy may have it.
        if moment in self._kept and not moment.store.expiry_is_due:
            self._kept.move_to_end(moment)
            return self._kept[moment].partitions
        abandoned = threading.Event()
        try:
            partitions = await asyncio.to_thread(_load, moment, abandoned)
        except asyncio.CancelledError:
            abandoned.set()  # the thread goes on no further than the memory that it has in hand
            raise
        self._keep(moment, partitions)
        return partitions

    def _keep(self, moment: _Moment, partitions: Sequence[Partition]) -> None:
        if sum(map(len, partitions)) > self._settings.kept_memories:
            return
        self._let_go(moment)
        end = asyncio.get_running_loop().call_later(self._settings.kept_seconds, self._let_go, moment)
        self._kept[moment] = _Kept(partitions, end)
        while len(self._kept) > self._settings.kept:
            self._let_go(next(iter(self._kept)))

    def _let_go(self, moment: _Moment) -> None:
        kept = self._kept.pop(moment, None)
        if kept is not None:
            kept.end.cancel()


def _load(moment: _Moment, abandoned: threading.Event) -> list[Partition]:
    store, model = moment.store, moment.model
    loaded = []
    for rung in moment.rung.lineage():
        partition = Partition(rung, model.dimension, _EXACT)
        stored = store.load_rung_as_of(rung, moment.at, model.fingerprint)
        rows = takewhile(lambda _: not abandoned.is_set(), stored)
        try:
            partition.apply(added=rows)
        except (InvalidVector, ValueError) as error:
            raise TenantQuarantined(
                f"the file of tenant {store.tenant_id!r} holds what cannot be indexed ({error}): "
                "restore it from a backup"
            ) from error
        loaded.append(partition)
    return loaded
