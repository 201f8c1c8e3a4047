"""One tenant at work: its store, its partitions, and the order in which a write becomes true.

The life of a write: embed -> one durable transaction -> version -> partitions -> sessions told -> every
cache confirmed -> ack. Embedding happens before the tenant's write lock is taken, confirmation after it is
released; what is between is in the order of versions.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.change import Change, ChangeCause
from precall.engine.clock import Clock
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import InvalidVector, StorageUnavailable, TenantQuarantined, VersionNotReached
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from precall.engine.preparing import prepare
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.search import search

Outcome = TypeVar("Outcome", WriteOutcome, DeleteOutcome)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search answered, as of ``version`` or later. ``visible``: memories on the rungs searched."""

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
    ) -> None:
        self.store = store
        self._batcher = batcher
        self._anticipator = anticipator
        self._clock = clock
        self._settings = settings
        self._writing = asyncio.Lock()
        self._settling: set[asyncio.Task[WriteOutcome] | asyncio.Task[DeleteOutcome]] = set()
        self._partitions: dict[Rung, Partition] = {}
        self._horizon = store.lease_horizon
        """Unix seconds until which clients of an earlier process may still serve what they hold."""
        self._announced_horizon = self._horizon
        self._announcing = asyncio.Lock()
        self.version = store.version

    @property
    def id(self) -> str:
        return self.store.tenant_id

    @property
    def ladder(self) -> Ladder:
        return self.store.ladder

    # Reads

    async def partitions(self, rung: Rung) -> Sequence[Partition]:
        """The partitions that a reader on ``rung`` may see, the narrowest first; cold ones are loaded."""
        lineage = rung.lineage()
        if any(visible not in self._partitions for visible in lineage):
            async with self._writing:  # a partition is loaded between two writes, never in the middle of one
                for visible in lineage:
                    if visible not in self._partitions:
                        self._partitions[visible] = await asyncio.to_thread(self._load, visible)
        return [self._partitions[visible] for visible in lineage]

    async def search(self, rung: Rung, query: Query, *, min_version: int = 0) -> Found:
        """The best memories that a reader on ``rung`` may see. Raises VersionNotReached."""
        if min_version > self.version:
            raise VersionNotReached(
                f"version {min_version} was asked for, this server holds {self.version}",
                metadata={"version": str(self.version)},
            )
        partitions = await self.partitions(rung)
        version = self.version
        visible = sum(map(len, partitions))
        return Found(await search(partitions, query), version, visible)

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
                await self._settled_before(replay, self._settling)
                return replay
        prepared = await self._prepare(memories, vectors, truncate=truncate, deadline=deadline)
        return await self._settled(
            lambda: self.store.write(prepared, request_id=request_id, branch=branch),
            lambda outcome: Change(
                self.id,
                outcome.version,
                ChangeCause.SUPERSEDED if outcome.removed else ChangeCause.WRITTEN,
                outcome.added,
                outcome.removed,
            ),
        )

    async def delete(
        self, memory_ids: Sequence[str], *, visible_from: Rung | None, request_id: str | None
    ) -> DeleteOutcome:
        """Destroy memories and what was derived from them; no cache can serve them on return.

        That holds for what is not there as well: an earlier call may have destroyed it and still be waiting
        for its holders.
        """
        return await self._settled(
            lambda: self.store.delete(memory_ids, visible_from=visible_from, request_id=request_id),
            self._deletion,
        )

    async def forget_scope(self, rung: Rung, *, request_id: str | None) -> DeleteOutcome:
        """Destroy a rung and everything below it."""
        return await self._settled(
            lambda: self.store.forget_scope(rung, request_id=request_id), self._deletion
        )

    async def forget_source(
        self, source: Source, *, visible_from: Rung, request_id: str | None
    ) -> DeleteOutcome:
        """Destroy what came from a source, and what was derived from that."""
        return await self._settled(
            lambda: self.store.forget_source(source, visible_from=visible_from, request_id=request_id),
            self._deletion,
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
        async with self._writing:
            horizon = self._clock.wall() + lease_seconds if lease_seconds > 0 else 0.0
            if self._announced_horizon != horizon:
                # A full disk keeps the horizon that was announced, which is later: safe, and no reason to
                # leave the files open, or undeleted.
                with suppress(StorageUnavailable):
                    await asyncio.to_thread(self._store_horizon, max(horizon, self._horizon))
            await asyncio.to_thread(self.store.close)

    def check_integrity(self) -> None:
        """Raise AssertionError when store and partitions disagree; for tests."""
        for rung, partition in self._partitions.items():
            partition.check_integrity()
            stored = {indexed.memory.id for indexed in self.store.load_rung(rung)}
            assert stored == {indexed.memory.id for indexed in partition.all()}

    # Internal

    def _store_horizon(self, moment: float) -> None:
        self.store.lease_horizon = moment

    def _load(self, rung: Rung) -> Partition:
        partition = Partition(rung, self.store.dimension, self._settings)
        try:
            partition.apply(added=self.store.load_rung(rung))
        except (InvalidVector, ValueError) as error:
            raise TenantQuarantined(
                f"the file of tenant {self.id!r} holds what cannot be indexed ({error}): "
                "restore it from a backup"
            ) from error
        return partition

    async def _prepare(
        self,
        memories: Sequence[NewMemory],
        vectors: Sequence[NDArray[np.float32] | None],
        *,
        truncate: bool,
        deadline: float | None,
    ) -> Sequence[PreparedMemory]:
        """Vectors and keyword impacts of a batch. Raises the first item's error, naming its position."""
        unembedded = [position for position, vector in enumerate(vectors) if vector is None]
        outcomes = await self._batcher.embed(
            [memories[position].text for position in unembedded],
            TextRole.DOCUMENT,
            tenant=self.id,
            work_class=WorkClass.INGEST,
            deadline=deadline,
            truncate=truncate,
        )
        embedded = dict(zip(unembedded, outcomes, strict=True))
        # On a thread: a batch of long texts takes seconds to analyse, and every tenant shares this loop.
        return await asyncio.to_thread(prepare, memories, vectors, embedded)

    async def _settled(self, store: Callable[[], Outcome], change_of: Callable[[Outcome], Change]) -> Outcome:
        """Commit, and return when the outcome is durable, searchable, and free of stale copies.

        The work is a task of its own: a caller that hangs up must not split a commit from what follows it.
        A request that comes again, and a destruction that may have come too late to find anything, wait for
        what an earlier call may still be waiting for.
        """
        earlier = set(self._settling)
        settling = asyncio.create_task(self._settle(store, change_of))
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)
        outcome = await asyncio.shield(settling)
        if outcome.replayed or isinstance(outcome, DeleteOutcome):
            await self._settled_before(outcome, earlier)
        return outcome

    async def _settled_before(
        self, outcome: WriteOutcome | DeleteOutcome, earlier: Collection[asyncio.Task[Any]]
    ) -> None:
        """Wait for what earlier calls, also those of an earlier process, may still be waiting for."""
        if earlier:
            await asyncio.wait(earlier)  # and not gather, whose cancellation would reach into other calls
        if _promises_absence(outcome):
            await self.wait_for_earlier_leases()

    async def _settle(self, store: Callable[[], Outcome], change_of: Callable[[Outcome], Change]) -> Outcome:
        async with self._writing:
            outcome = await asyncio.to_thread(store)
            if outcome.replayed:
                # Its change was made long ago; an id that it removed may stand for another memory now.
                return outcome
            change = change_of(outcome)
            removed_terms = await asyncio.to_thread(self._apply, change)
            self.version = change.version
            confirmation = self._anticipator.announce(replace(change, removed_terms=removed_terms))
        await confirmation.wait()
        if outcome.removed:
            await self.wait_for_earlier_leases()
        return outcome

    def _apply(self, change: Change) -> frozenset[str]:
        """Bring the partitions up to date; returns the terms of what was removed."""
        removed_terms: set[str] = set()
        for rung in {m.memory.rung for m in change.added} | {r.rung for r in change.removed}:
            if (partition := self._partitions.get(rung)) is not None:  # a cold one will load this from disk
                removed = [r.id for r in change.removed if r.rung == rung]
                removed_terms |= partition.terms(removed)
                partition.apply(added=[m for m in change.added if m.memory.rung == rung], removed=removed)
        return frozenset(removed_terms)

    def _deletion(self, outcome: DeleteOutcome) -> Change:
        return Change(self.id, outcome.version, ChangeCause.DELETED, removed=outcome.removed)

    async def wait_for_earlier_leases(self) -> None:
        """After a restart nobody knows what clients of the earlier process hold: wait their leases out."""
        await asyncio.sleep(max(0.0, self._horizon - self._clock.wall()))


def _promises_absence(outcome: WriteOutcome | DeleteOutcome) -> bool:
    """Whether the caller may now rely on no cache serving something, also when the outcome is a replay."""
    return isinstance(outcome, DeleteOutcome) or any(written.superseded_ids for written in outcome.written)
