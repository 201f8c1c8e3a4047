"""One tenant at work: its store, its partitions, and the order in which a write becomes true.

The life of a write: embed -> one durable transaction -> version -> partitions -> sessions told -> every
cache confirmed -> ack. Embedding happens before the tenant's write lock is taken, confirmation after it is
released; what is between is in the order of versions (`Commits`).
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.work import WorkClass
from precall.engine.change import ChangeCause
from precall.engine.clock import Clock
from precall.engine.commits import Commits
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import InvalidVector, StorageUnavailable, TenantQuarantined, VersionNotReached
from precall.engine.footprint import Footprint
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from precall.engine.preparing import prepare
from precall.engine.residency import Residency
from precall.engine.resident_partitions import Lineage, LoadedPartition, ResidentPartitions
from precall.engine.retrieval.canary import RecallCanary
from precall.engine.retrieval.past import Past
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.search import SearchMethod, count_visible, search

_QUICKLY_ANALYSED: Final = 1_000
"""Characters of a write that are analysed in less time than a thread takes to begin (0.3 ms)."""

_EXPIRED_AT_ONCE: Final = 256
"""Memories of one destruction: what waits behind it waits for tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search answered, as of ``version`` or later.

    ``visible``: memories on the rungs searched that pass the filter.
    """

    hits: Sequence[Hit]
    version: int
    visible: int


class Tenant:
    """Reads and writes of one tenant. Only the event loop may call in; disk work happens in threads."""

    def __init__(
        self,
        store: TenantStore,
        batcher: Batcher,
        anticipator: Anticipator,
        clock: Clock,
        settings: PartitionSettings,
        canary: RecallCanary,
        residency: Residency,
        loads: asyncio.Semaphore,
        past: Past,
    ) -> None:
        """``loads``: what all tenants' loads from the disk take one of. It reads from the store."""
        self.store = store
        self._batcher = batcher
        self._anticipator = anticipator
        self._clock = clock
        self._settings = settings
        self._canary = canary
        self._past = past
        self._partitions = ResidentPartitions(store.tenant_id, residency, loads, lambda r: self._load(r))
        self._horizon = store.lease_horizon
        """Unix seconds until which clients of an earlier process may still serve what they hold."""
        self._announced_horizon = self._horizon
        self._announcing = asyncio.Lock()
        self._commits = Commits(store, self._partitions, anticipator, self.wait_for_earlier_leases)

    @property
    def version(self) -> int:
        """What searches answer as of, and sessions were told of."""
        return self._commits.version

    @property
    def id(self) -> str:
        return self.store.tenant_id

    @property
    def ladder(self) -> Ladder:
        return self.store.ladder

    # Reads

    async def partitions(self, rung: Rung) -> Lineage:
        """The partitions that a reader on ``rung`` may see, the narrowest first; cold ones are loaded.

        They stay in memory for as long as somebody has what this returns.
        """
        return await self._partitions.lineage(rung, self._commits.turn)

    @property
    def in_memory(self) -> int:
        """Partitions that need not be loaded."""
        return len(self._partitions)

    async def search(
        self,
        rung: Rung,
        query: Query,
        *,
        min_version: int = 0,
        as_of: datetime | None = None,
        method: SearchMethod = search,
    ) -> Found:
        """The best memories that a reader on ``rung`` may see, by a method and whatever that may raise.

        ``as_of``: the ladder as it stood then, ``query.now``, less what was destroyed since. Raises
        VersionNotReached, and with ``as_of`` Overloaded.
        """
        if min_version > self.version:
            raise VersionNotReached(
                f"version {min_version} was asked for, this server holds {self.version}",
                metadata={"version": str(self.version)},
            )
        if as_of is not None:
            return await self._search_past(rung, query, as_of, method)
        partitions = await self.partitions(rung)
        version = self.version
        visible = await count_visible(partitions, query.filter)
        hits = await method(partitions, query)
        if method is search:
            self._canary.watch(partitions, query, hits)
        return Found(hits, version, visible)

    async def _search_past(self, rung: Rung, query: Query, as_of: datetime, method: SearchMethod) -> Found:
        version = self.version
        async with self._past.lineage(self.store, rung, as_of, version=version) as partitions:
            visible = await count_visible(partitions, query.filter)
            hits = await method(partitions, query)
        # No write reaches these partitions: what was destroyed meanwhile is known to the store alone.
        found = await asyncio.to_thread(self.store.get, [hit.memory.id for hit in hits], visible_from=rung)
        standing = {memory.id for memory in found.memories}
        return Found([hit for hit in hits if hit.memory.id in standing], version, visible)

    # Writes

    async def write(
        self,
        memories: Sequence[NewMemory],
        vectors: Sequence[NDArray[np.float32] | None],
        *,
        request_id: str | None,
        truncate: bool,
        deadline: float | None = None,
        branch: Rung | None = None,
    ) -> WriteOutcome:
        """Store a batch whole or not at all; durable, searchable and free of stale copies on return.

        ``vectors``: a unit vector of this index's model for a memory, or None to have it embedded.
        ``branch``: as `TenantStore.write` takes it.
        """
        if request_id is not None:  # a retry must not cost an embedding, nor fail because there is no model
            replay = await asyncio.to_thread(self.store.replayed_write, memories, request_id=request_id)
            if replay is not None:
                return await self._commits.replayed(replay)
        prepared = await self._prepare(memories, vectors, truncate=truncate, deadline=deadline)
        outcome = await self._commits.write(AskedWrite(prepared, request_id, branch))
        self._partitions.wrote(outcome.added)
        return outcome

    async def delete(
        self, memory_ids: Sequence[str], *, visible_from: Rung | None, request_id: str | None
    ) -> DeleteOutcome:
        """Destroy memories and what was derived from them; no cache can serve them on return.

        That holds for what is not there as well: an earlier call may have destroyed it and still be waiting
        for its holders.
        """
        return await self._commits.destroy(
            lambda: self.store.delete(memory_ids, visible_from=visible_from, request_id=request_id),
            ChangeCause.DELETED,
        )

    async def forget_scope(self, rung: Rung, *, request_id: str | None) -> DeleteOutcome:
        """Destroy a rung and everything below it."""
        return await self._commits.destroy(
            lambda: self.store.forget_scope(rung, request_id=request_id), ChangeCause.DELETED
        )

    async def forget_source(
        self, source: Source, *, visible_from: Rung, request_id: str | None
    ) -> DeleteOutcome:
        """Destroy what came from a source, and what was derived from that."""
        return await self._commits.destroy(
            lambda: self.store.forget_source(source, visible_from=visible_from, request_id=request_id),
            ChangeCause.DELETED,
        )

    @property
    def expiry_is_due(self) -> bool:
        """Whether something may have expired that is not destroyed yet; answered from memory."""
        return self.store.expiry_is_due

    async def destroy_expired(self) -> None:
        """Destroy what has expired, in steps between which other changes have their turn."""
        while self.expiry_is_due:
            await self._commits.destroy(
                lambda: self.store.destroy_expired(limit=_EXPIRED_AT_ONCE), ChangeCause.EXPIRED
            )

    # Leases across restarts

    async def note_lease(self, seconds: float) -> None:
        """Make durable, before a lease is granted, that a later process must reckon with it."""
        until = self._clock.wall() + seconds
        if until > self._announced_horizon:
            async with self._announcing:
                if until > self._announced_horizon:
                    horizon = until + seconds / 2  # so that one write serves several renewals
                    await asyncio.to_thread(self._store_horizon, horizon)
                    self._announced_horizon = horizon

    async def close(self, *, lease_seconds: float) -> None:
        """Close the files; ``lease_seconds``: how much longer some client may serve what it holds."""
        async with self._commits.turn:
            horizon = self._clock.wall() + lease_seconds if lease_seconds > 0 else 0.0
            if self._announced_horizon not in (horizon, self._horizon):  # else the file says so already
                # A full disk keeps the horizon that was announced, which is later: safe, and no reason to
                # leave the files open, or undeleted.
                with suppress(StorageUnavailable):
                    await asyncio.to_thread(self._store_horizon, max(horizon, self._horizon))
            await asyncio.to_thread(self.store.close)
            self._partitions.clear()

    def check_integrity(self) -> None:
        """Raise AssertionError when store and partitions disagree; for tests."""
        for rung, partition in self._partitions.items():
            partition.check_integrity()
            stored = {indexed.memory.id for indexed in self.store.load_rung(rung)}
            assert stored == {indexed.memory.id for indexed in partition.all()}

    # Internal

    def _store_horizon(self, moment: float) -> None:
        self.store.lease_horizon = moment

    def _load(self, rung: Rung) -> LoadedPartition:
        partition = Partition(rung, self.store.dimension, self._settings)
        footprint = Footprint(self.store.dimension)
        try:
            partition.apply(added=footprint.counted(self.store.load_rung(rung)))
        except (InvalidVector, ValueError) as error:
            raise TenantQuarantined(
                f"the file of tenant {self.id!r} holds what cannot be indexed ({error}): "
                "restore it from a backup"
            ) from error
        return LoadedPartition(partition, footprint)

    async def _prepare(
        self,
        memories: Sequence[NewMemory],
        vectors: Sequence[NDArray[np.float32] | None],
        *,
        truncate: bool,
        deadline: float | None,
    ) -> Sequence[PreparedMemory]:
        """Vectors and keyword impacts of a batch. Raises the first item's error, naming its position."""
        embedded: dict[int, EmbeddingOutcome] = {}
        unembedded = [position for position, vector in enumerate(vectors) if vector is None]
        if unembedded:
            outcomes = await self._batcher.embed(
                [memories[position].text for position in unembedded],
                TextRole.DOCUMENT,
                tenant=self.id,
                work_class=WorkClass.INGEST,
                deadline=deadline,
                truncate=truncate,
            )
            embedded = dict(zip(unembedded, outcomes, strict=True))
        if sum(memory.characters for memory in memories) <= _QUICKLY_ANALYSED:
            return prepare(memories, vectors, embedded)
        # On a thread: a batch of long texts takes seconds to analyse, and every tenant shares this loop.
        return await asyncio.to_thread(prepare, memories, vectors, embedded)

    async def wait_for_earlier_leases(self) -> None:
        """After a restart nobody knows what clients of the earlier process hold: wait their leases out."""
        await asyncio.sleep(max(0.0, self._horizon - self._clock.wall()))
