"""One tenant at work: its store, its models' partitions, and the order in which a write becomes true.

The life of a write: embed -> one durable transaction -> version -> partitions -> sessions told -> every
cache confirmed -> ack. Embedding happens before the tenant's write lock is taken, confirmation after it is
released; what is between is in the order of versions (`Commits`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.change import ChangeCause
from precall.engine.clock import Clock
from precall.engine.commits import Commits
from precall.engine.errors import FingerprintMismatch, ModelChanged, VersionNotReached
from precall.engine.lease_horizon import LeaseHorizon
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.memory.store import TenantStore
from precall.engine.migration.migrating import Migrating
from precall.engine.model_pair import ModelPair
from precall.engine.preparing import GivenVector, PreparedBatch, Preparing
from precall.engine.resident_partitions import Lineage
from precall.engine.retrieval.canary import RecallCanary
from precall.engine.retrieval.past import Past
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.search import SearchMethod, count_visible, search
from precall.engine.tenant_model import TenantModel

_EXPIRED_AT_ONCE: Final = 256
"""Memories of one destruction: what waits behind it waits for tens of milliseconds."""

_TRIES: Final = 5
"""Of a write that finds each time that another model serves by now: nobody changes it so often."""


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
        pair: ModelPair,
        anticipator: Anticipator,
        clock: Clock,
        canary: RecallCanary,
        past: Past,
    ) -> None:
        """It reads from the store. Call `resume` once it is on its event loop."""
        self.store = store
        self._pair = pair
        self._canary = canary
        self._past = past
        self._preparing = Preparing(store.tenant_id, pair)
        self._horizon = LeaseHorizon(store, clock)
        self._commits = Commits(
            store, pair, anticipator, self.wait_for_earlier_leases, lambda: self.migrating.resume()
        )
        self.migrating = Migrating(store, pair, self._commits.turn, anticipator, clock)

    def resume(self) -> None:
        """Go on with what an earlier process left to do in the background."""
        self.migrating.resume()

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

    def model(self, fingerprint: str = "") -> TenantModel:
        """The model of a fingerprint, or the one that serves. Raises FingerprintMismatch for one that the
        tenant has not.
        """
        return self._pair.model(fingerprint)

    # Reads

    async def partitions(self, rung: Rung, model: TenantModel | None = None) -> Lineage:
        """The partitions that a reader on ``rung`` may see, the narrowest first; cold ones are loaded.

        They stay in memory for as long as somebody has what this returns. ``model``: whose vectors; None: of
        the one that serves. Raises ModelChanged for one that was given up.
        """
        model = model if model is not None else self._pair.serving
        model.require_kept()
        return await model.partitions.lineage(rung, self._commits.turn)

    @property
    def in_memory(self) -> int:
        """Partitions that need not be loaded."""
        return sum(len(model.partitions) for model in self._pair)

    async def search(
        self,
        rung: Rung,
        query: Query,
        *,
        model: TenantModel | None = None,
        min_version: int = 0,
        as_of: datetime | None = None,
        method: SearchMethod = search,
    ) -> Found:
        """The best memories that a reader on ``rung`` may see, by a method and whatever that may raise.

        ``model``: what made ``query.vector``; None: the one that serves, for callers that know of no other.
        ``as_of``: the ladder as it stood then, ``query.now``, less what was destroyed since.

        Raises VersionNotReached, and with ``as_of`` Overloaded; ModelChanged when the tenant gave the model
        up before the answer was there, and FingerprintMismatch when it has not all of its vectors yet: the
        text is then to be embedded anew with `model`'s.
        """
        if min_version > self.version:
            raise VersionNotReached(
                f"version {min_version} was asked for, this server holds {self.version}",
                metadata={"version": str(self.version)},
            )
        model = model if model is not None else self._pair.serving
        self._pair.require_searchable(model)
        if as_of is not None:
            found = await self._search_past(rung, query, as_of, model, method)
        else:
            partitions = await self.partitions(rung, model)
            version = self.version
            visible = await count_visible(partitions, query.filter)
            hits = await method(partitions, query)
            if method is search:
                self._canary.watch(partitions, query, hits)
            found = Found(hits, version, visible)
        model.require_kept()  # else what was destroyed meanwhile may be among the hits
        return found

    async def _search_past(
        self, rung: Rung, query: Query, as_of: datetime, model: TenantModel, method: SearchMethod
    ) -> Found:
        version = self.version
        try:
            async with self._past.lineage(
                self.store, model.stored, rung, as_of, version=version
            ) as partitions:
                visible = await count_visible(partitions, query.filter)
                hits = await method(partitions, query)
        except FingerprintMismatch as error:  # it could be searched when this began
            raise model.changed() from error
        # No write reaches these partitions: what was destroyed meanwhile is known to the store alone.
        found = await asyncio.to_thread(self.store.get, [hit.memory.id for hit in hits], visible_from=rung)
        standing = {memory.id for memory in found.memories}
        return Found([hit for hit in hits if hit.memory.id in standing], version, visible)

    # Writes

    async def write(
        self,
        memories: Sequence[NewMemory],
        vectors: Sequence[GivenVector | None],
        *,
        request_id: str | None,
        truncate: bool,
        deadline: float | None = None,
        branch: Rung | None = None,
    ) -> WriteOutcome:
        """Store a batch whole or not at all; durable, searchable and free of stale copies on return.

        ``vectors``: of one of the tenant's models for a memory, or None to have it embedded. What a second
        model needs is embedded in any case. ``branch``: as `TenantStore.write` takes it.
        """
        # A retry must not cost an embedding, nor fail because there is no model.
        if (replay := await self.replayed(memories, request_id=request_id)) is not None:
            return replay
        for tries_left in reversed(range(_TRIES)):
            prepared = await self._preparing.prepare(memories, vectors, truncate=truncate, deadline=deadline)
            try:
                return await self._commit(prepared, request_id, branch)
            except ModelChanged:  # between its embedding and its commit the tenant was switched
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def replayed(self, memories: Sequence[NewMemory], *, request_id: str | None) -> WriteOutcome | None:
        """What `write` answered to this request, if it did: the answer to a retry, whatever has become of the
        models since. Raises InvalidInput for an id that was used for something else.
        """
        if request_id is None:
            return None
        replay = await asyncio.to_thread(self.store.replayed_write, memories, request_id=request_id)
        return None if replay is None else await self._commits.replayed(replay)

    async def _commit(
        self, prepared: PreparedBatch, request_id: str | None, branch: Rung | None
    ) -> WriteOutcome:
        asked = AskedWrite(prepared.memories, request_id, branch, prepared.serving, prepared.other)
        outcome = await self._commits.write(asked)
        if prepared.cut_beside and not outcome.replayed:
            self._pair.note_cut(prepared.other, prepared.cut_beside)
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

    # Life

    async def note_lease(self, seconds: float) -> None:
        """Make durable, before a lease is granted, that a later process must reckon with it."""
        await self._horizon.note(seconds)

    async def wait_for_earlier_leases(self) -> None:
        """After a restart nobody knows what clients of the earlier process hold: wait their leases out."""
        await self._horizon.passed()

    async def close(self, *, lease_seconds: float) -> None:
        """Close the files; ``lease_seconds``: how much longer some client may serve what it holds."""
        await self.migrating.close()
        async with self._commits.turn:
            await self._horizon.settle(lease_seconds)
            await asyncio.to_thread(self.store.close)
            for model in self._pair:
                model.partitions.clear()

    def check_integrity(self) -> None:
        """Raise AssertionError when store and partitions disagree; for tests."""
        for model in self._pair:
            model.check_integrity()
