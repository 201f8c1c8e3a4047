"""What a migration leaves to be done in the background: for one tenant, by one task at a time."""

import asyncio
import logging
from typing import Final

from precall.engine.backfill import backfill
from precall.engine.clock import Clock
from precall.engine.comparison import ModelComparison
from precall.engine.errors import Draining, PrecallError
from precall.engine.memory.migration import MigrationState
from precall.engine.memory.store import TenantStore
from precall.engine.model_pair import ModelPair
from precall.engine.patient_embedding import PatientEmbedding

_SETTLED_AT_ONCE: Final = 256
"""Rows of one transaction, which writes wait for: tens of milliseconds."""

_logger = logging.getLogger(__name__)


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
        self._stop = asyncio.Event()
        self._embedding = PatientEmbedding(store.tenant_id, self._stop, self._paused)
        self._halted = False
        self._wanted = False
        self._task: asyncio.Task[None] | None = None
        self.error = ""
        """Why it stopped, or pauses; stays until something works again."""

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
            self._require_going()

    async def _run(self) -> None:
        try:
            while self._wanted and not self._stop.is_set():
                self._wanted = False
                await self._advance()
                self.error = ""
        except Draining:
            pass
        except PrecallError as error:
            self.error = f"{error.reason}: {error.message}"
            _logger.warning("the migration of tenant %s stopped: %s", self._store.tenant_id, self.error)
        except Exception:
            self.error = "INTERNAL: an unexpected error; the server's log has it"
            _logger.exception("the migration of tenant %s stopped", self._store.tenant_id)
        finally:
            self._task = None

    async def _advance(self) -> None:
        migration = await asyncio.to_thread(lambda: self._store.migration)
        if migration is None:
            return
        if migration.state in (MigrationState.FINISHING, MigrationState.ROLLED_BACK):
            await self.settle()
        elif migration.state is MigrationState.BACKFILLING and (other := self._pair.other) is not None:
            await backfill(self._store, other, self._turn, self._embedding)
            if migration.overlap_at_10 is None:
                await self._compare()

    async def _compare(self) -> None:
        comparison = ModelComparison(self._store, list(self._pair), self._turn, self._embedding)
        made = await comparison.run(now=self._clock.wall())
        self._require_going()
        if made is not None:
            await asyncio.to_thread(self._store.note_comparison, made.overlap_at_10, made.queries)

    def _paused(self, why: str) -> None:
        self.error = why

    def _require_going(self) -> None:
        if self._stop.is_set():
            raise Draining("the work in the background was told to stop")
