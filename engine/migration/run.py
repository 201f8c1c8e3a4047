"""What a migration leaves to be done in the background: for one tenant, by one task at a time."""

import asyncio
from typing import Final

from precall.engine.clock import Clock
from precall.engine.errors import Draining, PrecallError, StorageUnavailable
from precall.engine.memory.migration import Migration, MigrationState
from precall.engine.memory.store import TenantStore
from precall.engine.migration.backfill import backfill
from precall.engine.migration.comparison import ModelComparison
from precall.engine.migration.log import log_step, log_stop
from precall.engine.migration.patient_embedding import PatientEmbedding
from precall.engine.migration.stop_signal import StopSignal, growing_pauses
from precall.engine.model_pair import ModelPair

_SETTLED_AT_ONCE: Final = 256
"""Rows of one transaction, which writes wait for: tens of milliseconds."""


class MigrationRun:
    """Backfills and compares, or settles what finishing and rolling back leave, as the file's state has it.
    What was done is in the file, so a run that is stopped, or dies, goes on from there.

    Only the event loop may call in.
    """

    def __init__(self, store: TenantStore, pair: ModelPair, turn: asyncio.Lock, clock: Clock) -> None:
        """``turn``: whoever holds it sees disk and memory agree."""
        self._store = store
        self._pair = pair
        self._turn = turn
        self._clock = clock
        self._stop = StopSignal()
        self._embedding = PatientEmbedding(store.tenant_id, self._stop, self._paused)
        self._halted = False
        self._wanted = False
        self._task: asyncio.Task[None] | None = None
        self.error = ""
        """Why it stopped, or pauses; stays until something works again."""
        self.too_few_to_compare = False
        """Whether the models were to be compared, and too few memories stand on any rung for that."""

    @property
    def running(self) -> bool:
        return self._task is not None

    def begin(self) -> None:
        """See whether there is something to do, once more if that is being seen to already."""
        self._wanted = True
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"migrate {self._store.tenant_id}")

    async def stop(self) -> None:
        """Return when it does nothing any more, until it is begun anew; no work of the disk is cut."""
        self._stop.set()
        await self.ended()
        if not self._halted:
            self._stop.clear()

    async def ended(self) -> None:
        """Return when it does nothing, of itself."""
        while self._task is not None:
            await asyncio.wait({self._task})

    def halt(self) -> None:
        """Stop soon, and for good."""
        self._halted = True
        self._stop.set()

    async def settle(self) -> None:
        """Move or remove what finishing or rolling back left. Raises Draining when it is to stop."""
        while await asyncio.to_thread(self._store.settle_migration, _SETTLED_AT_ONCE):
            self._stop.require_going()

    async def _run(self) -> None:
        try:
            while self._wanted and not self._stop.is_set():
                await self._advance_patiently()
        except Draining:
            pass
        except PrecallError as error:
            self.error = f"{error.reason}: {error.message}"
            log_stop(self._store.tenant_id, self.error)
        except Exception as error:
            self.error = "INTERNAL: an unexpected error; the server's log has it"
            log_stop(self._store.tenant_id, self.error, error)
        finally:
            self._task = None

    async def _advance_patiently(self) -> None:
        """A disk that refuses, being full say, is asked again: nobody else takes this work up."""
        for pause in growing_pauses():
            self._wanted = False
            try:
                await self._advance()
            except StorageUnavailable as refusal:
                self.error = f"{refusal.reason}: {refusal.message}"
                await self._stop.pause(pause)
            else:
                self.error = ""
                return

    async def _advance(self) -> None:
        migration = await self._migration()
        if migration is None:
            return
        await self._advance_from(migration)
        after = await self._migration()
        if after is not None and after.stage != migration.stage:
            log_step(self._store.tenant_id, after)

    async def _migration(self) -> Migration | None:
        return await asyncio.to_thread(lambda: self._store.migration)

    async def _advance_from(self, migration: Migration) -> None:
        if migration.state in (MigrationState.FINISHING, MigrationState.ROLLED_BACK):
            await self.settle()
        elif migration.state is MigrationState.BACKFILLING and (other := self._pair.other) is not None:
            await backfill(self._store, other, self._turn, self._embedding)
            if migration.overlap_at_10 is None:
                await self._compare()

    async def _compare(self) -> None:
        comparison = ModelComparison(self._store, list(self._pair), self._turn, self._embedding)
        made = await comparison.run(now=self._clock.wall())
        self._stop.require_going()
        self.too_few_to_compare = made is None
        if made is not None:
            await asyncio.to_thread(self._store.note_comparison, made.overlap_at_10, made.queries)

    def _paused(self, why: str) -> None:
        self.error = why
