"""A tenant's changes on their way from asked to acked, in the order of versions.

Commit -> partitions -> sessions told, one change at a time under the tenant's turn; then, outside of it,
every cache confirmed. Writes that wait for the turn together take it together: one transaction, one step of
the partitions, one announcement, which names the last of their versions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.change import Change, ChangeCause
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.outcomes import DeleteOutcome, NetEffect, RemovedMemory, WriteOutcome
from precall.engine.memory.store import TenantStore
from precall.engine.memory.write_queue import WriteQueue
from precall.engine.model_pair import ModelPair

Outcome = TypeVar("Outcome", WriteOutcome, DeleteOutcome)


@dataclass(frozen=True, slots=True)
class _Committed(Generic[Outcome]):
    """What is durable and searchable. ``confirmation``: until no cache serves what it removed; None on a
    replay, whose change was made long ago: an id that it removed may stand for another memory now.
    """

    outcome: Outcome
    confirmation: Confirmation | None


@dataclass(frozen=True, slots=True)
class _Applied:
    """What a thread did to the disk and the partitions. ``change`` is None when nothing changed."""

    results: Sequence[WriteOutcome | Exception]
    change: Change | None


class Commits:
    """Only the event loop may call in; disk and partitions are worked on in threads."""

    def __init__(
        self,
        store: TenantStore,
        pair: ModelPair,
        anticipator: Anticipator,
        wait_for_earlier_leases: Callable[[], Awaitable[None]],
        fill_in: Callable[[], None],
    ) -> None:
        """``pair``: its partitions follow each change; what is cold is loaded in a turn of its own.
        ``fill_in`` is called when memories were stored without a vector of the pair's other model, and when
        some are gone: they may be those that could have none.
        """
        self._store = store
        self._pair = pair
        self._anticipator = anticipator
        self._wait_for_earlier_leases = wait_for_earlier_leases
        self._fill_in = fill_in
        self.turn = asyncio.Lock()
        """Whoever holds it sees store, partitions and version agree, and no change begins."""
        self.version = store.version
        self._writes: WriteQueue[_Committed[WriteOutcome]] = WriteQueue(self.turn, self._commit_writes)
        self._settling: set[asyncio.Task[Any]] = set()

    async def write(self, asked: AskedWrite) -> WriteOutcome:
        """Returns when the outcome is durable, searchable, and free of stale copies. Raises what
        `TenantStore.write` raises.
        """
        return await self._settled(self._writes.put(asked), may_find_less=asked.request_id is not None)

    async def destroy(self, store: Callable[[], DeleteOutcome], cause: ChangeCause) -> DeleteOutcome:
        """``store`` destroys on the disk, in a thread. On return no cache can serve what it destroyed.

        That holds for what it did not find as well: an earlier call may have destroyed it and still be
        waiting for its holders.
        """
        return await self._settled(self._commit_destruction(store, cause), may_find_less=True)

    async def replayed(self, outcome: WriteOutcome) -> WriteOutcome:
        """The outcome of an earlier request, once it promises no less than it did then."""
        await self._settled_before(outcome, self._settling)
        return outcome

    async def _settled(
        self, committing: Coroutine[Any, Any, _Committed[Outcome]], *, may_find_less: bool
    ) -> Outcome:
        """The work is a task of its own: a caller that hangs up must not split a commit from what follows it.

        ``may_find_less``: a request that comes again, and a destruction that may have come too late to find
        anything. They wait for what an earlier call may still be waiting for.
        """
        earlier = set(self._settling) if may_find_less else ()
        settling = asyncio.create_task(self._settle(committing))
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
            await self._wait_for_earlier_leases()

    async def _settle(self, committing: Coroutine[Any, Any, _Committed[Outcome]]) -> Outcome:
        committed = await committing
        if committed.confirmation is not None and committed.outcome.removed:
            await committed.confirmation.wait()
            await self._wait_for_earlier_leases()
        return committed.outcome

    async def _commit_writes(
        self, writes: Sequence[AskedWrite]
    ) -> Sequence[_Committed[WriteOutcome] | Exception]:
        """The queue calls it in its turn."""
        applied = await asyncio.to_thread(self._store_writes, writes)
        confirmation = None
        if applied.change is not None:
            confirmation = self._announce(applied.change)
            for model in self._pair:
                model.partitions.wrote(applied.change.added)
        if self._pair.other is not None and any(
            memory.other_vector is None for asked in writes for memory in asked.batch
        ):
            self._fill_in()
        return [
            result if isinstance(result, Exception) else _Committed(result, confirmation)
            for result in applied.results
        ]

    async def _commit_destruction(
        self, store: Callable[[], DeleteOutcome], cause: ChangeCause
    ) -> _Committed[DeleteOutcome]:
        async with self.turn:
            outcome = await asyncio.to_thread(store)
            if outcome.replayed:
                return _Committed(outcome, None)
            reweighed = outcome.reweighed
            change = Change(
                self._store.tenant_id,
                outcome.version,
                cause,
                added=reweighed,
                removed=(*outcome.removed, *map(RemovedMemory.of, reweighed)),
            )
            confirmation = self._announce(await asyncio.to_thread(self._apply, change))
            if self._pair.other is not None and outcome.removed:
                self._fill_in()
            return _Committed(outcome, confirmation)

    def _store_writes(self, writes: Sequence[AskedWrite]) -> _Applied:
        results = self._store.write_group(writes)
        outcomes = [each for each in results if isinstance(each, WriteOutcome) and not each.replayed]
        if not outcomes:
            return _Applied(results, None)
        effect = NetEffect.of(outcomes)
        cause = ChangeCause.SUPERSEDED if effect.removed else ChangeCause.WRITTEN
        change = Change(
            self._store.tenant_id,
            outcomes[-1].version,
            cause,
            added=(*effect.added, *effect.reweighed),
            removed=(*effect.removed, *map(RemovedMemory.of, effect.reweighed)),
        )
        return _Applied(results, self._apply(change))

    def _announce(self, change: Change) -> Confirmation:
        self.version = change.version
        return self._anticipator.announce(change)

    def _apply(self, change: Change) -> Change:
        """Bring the partitions of each model up to date; returns the change with the terms of what it
        removed.

        What is announced has the serving model's vectors: those of the sessions that hear of it.
        """
        removed_terms: set[str] = set()
        added_by_other = [_of_other(each) for each in change.added if each.other_vector is not None]
        for model, added in zip(self._pair, (change.added, added_by_other), strict=False):
            for rung in {m.memory.rung for m in added} | {r.rung for r in change.removed}:
                # A cold partition will load this from the disk.
                if (partition := model.partitions.get(rung)) is not None:
                    removed = [r.id for r in change.removed if r.rung == rung]
                    removed_terms |= partition.terms(removed)
                    partition.apply(added=[m for m in added if m.memory.rung == rung], removed=removed)
        return replace(change, removed_terms=frozenset(removed_terms))


def _of_other(indexed: IndexedMemory) -> IndexedMemory:
    """As the partitions of the other model have it."""
    assert indexed.other_vector is not None
    return replace(indexed, vector=indexed.other_vector, other_vector=None)


def _promises_absence(outcome: WriteOutcome | DeleteOutcome) -> bool:
    """Whether the caller may now rely on no cache serving something, also when the outcome is a replay."""
    return isinstance(outcome, DeleteOutcome) or any(written.superseded_ids for written in outcome.written)
