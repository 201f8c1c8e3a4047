"""The steps by which a tenant comes from one model to another, and back."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.clock import Clock
from precall.engine.errors import Draining, MigrationRefused
from precall.engine.memory.migration import Migration, MigrationState
from precall.engine.memory.store import TenantStore
from precall.engine.migration.log import log_step
from precall.engine.migration.run import MigrationRun
from precall.engine.model_pair import ModelPair
from precall.engine.models import Model
from precall.engine.tenant_model import TenantModel


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """How far the last migration has come; None where there never was one. ``error``: why its work in the
    background has stopped, or pauses; empty if it does not. ``running``: whether that work goes on.

    ``texts_cut``: memories of whose text the new model read a part only, since the tenant was opened; the
    rest of it cannot be found by its vectors. ``too_few_to_compare``: no rung's readers see enough memories
    for a comparison to say anything.
    """

    migration: Migration | None
    error: str
    running: bool
    texts_cut: int = 0
    too_few_to_compare: bool = False


class Migrating:
    """Each step happens whole, whatever becomes of its caller, and one at a time: the tenant's file first,
    then, in the same turn, who serves, so no commit and no search sees them disagree.

    The work that a step leaves to do goes on in the background (`MigrationRun`), across restarts. Every
    step may raise MigrationRefused, StorageUnavailable and Draining, and returns the new state. Only the
    event loop may call in.
    """

    def __init__(
        self, store: TenantStore, pair: ModelPair, turn: asyncio.Lock, anticipator: Anticipator, clock: Clock
    ) -> None:
        """``turn``: whoever holds it sees disk and memory agree, and no change begins."""
        self._store = store
        self._pair = pair
        self._turn = turn
        self._anticipator = anticipator
        self._run = MigrationRun(store, pair, turn, clock)
        self._steps = asyncio.Lock()
        self._closing = False

    def resume(self) -> None:
        """See in the background whether there is something to do."""
        if not self._closing and not self._steps.locked():  # a step begins it anew when it is taken
            self._run.begin()

    async def report(self) -> MigrationReport:
        migration = await asyncio.to_thread(lambda: self._store.migration)
        if migration is None:
            return MigrationReport(None, self._run.error, self._run.running)
        coming = (model for model in self._pair if model.fingerprint == migration.to_fingerprint)
        is_uncompared = migration.state is MigrationState.BACKFILLING and migration.overlap_at_10 is None
        return MigrationReport(
            migration,
            self._run.error,
            self._run.running,
            texts_cut=sum(model.texts_cut for model in coming),
            too_few_to_compare=is_uncompared and self._run.too_few_to_compare,
        )

    async def start(self, model: Model) -> MigrationReport:
        """Begin to make the vectors of a model. One that was begun goes on; after an error this is how.

        What a roll back has left of an earlier migration is removed first.
        """
        return await self._take(lambda: self._start(model))

    async def switch(self) -> MigrationReport:
        """Let the new model serve. Refused before every memory has its vector."""
        return await self._take(self._switch)

    async def roll_back(self) -> MigrationReport:
        """Let the old model serve again, or still, and give the new one up. Nothing is lost."""
        return await self._take(self._roll_back)

    async def finish(self) -> MigrationReport:
        """Give the old model up for good."""
        return await self._take(self._finish)

    async def settled(self) -> None:
        """Return when nothing is done in the background."""
        await self._run.ended()

    async def close(self) -> None:
        """Finish the step in hand, take no more, and leave the rest to the next process."""
        self._closing = True
        self._run.halt()
        async with self._steps:
            await self._run.stop()

    async def _take(self, step: Callable[[], Awaitable[None]]) -> MigrationReport:
        """A task of its own: a caller that hangs up must not part the file from who serves."""
        taking = asyncio.create_task(self._take_whole(step))
        taking.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen by somebody
        await asyncio.shield(taking)
        return await self.report()

    async def _take_whole(self, step: Callable[[], Awaitable[None]]) -> None:
        async with self._steps:
            if self._closing:
                raise Draining("the tenant is being closed: ask again when the server is back")
            await self._run.stop()
            try:
                await step()
                self._run.error, self._run.too_few_to_compare = "", False
                if (migration := await asyncio.to_thread(lambda: self._store.migration)) is not None:
                    log_step(self._store.tenant_id, migration)
            finally:
                if not self._closing:
                    self._run.begin()

    async def _start(self, model: Model) -> None:
        if self._store.migration_state is MigrationState.ROLLED_BACK:
            await self._run.settle()  # in chunks, outside the turn, and until it is told to stop
        await self._change(
            lambda: self._store.start_migration(model.fingerprint, model.card.dimension), switched=False
        )

    async def _switch(self) -> None:
        if (other := self._pair.other) is not None:
            await self._make_resident(other)
        elif self._store.other is not None:
            raise MigrationRefused(
                f"the model that tenant {self._store.tenant_id!r} migrates to, "
                f"{self._store.other.fingerprint}, is not loaded: start the server with both models"
            )
        await self._change(self._store.switch_migration, switched=True)

    async def _roll_back(self) -> None:
        if self._pair.switched and (other := self._pair.other) is not None:
            await self._make_resident(other)
        await self._change(self._store.roll_back_migration, switched=False)

    async def _finish(self) -> None:
        await self._change(self._store.finish_migration, switched=False)

    async def _make_resident(self, coming: TenantModel) -> None:
        """Read of the model that is to serve what is in memory of the one that does: no search shall wait for
        the disk because of a switch.
        """
        for rung in list(self._pair.serving.partitions):
            await coming.partitions.lineage(rung, self._turn)

    async def _change(self, store: Callable[[], None], *, switched: bool) -> None:
        """Change the file, in a thread, and who serves with it."""
        async with self._turn:
            before = self._pair.serving
            await asyncio.to_thread(store)
            self._pair.follow(switched=switched)
            if self._pair.serving is not before:
                # What sessions were pushed is compared with vectors of the model that served: clients come
                # back at once, are told of the new one, and ask the server meanwhile.
                self._anticipator.end_streams(self._store.tenant_id, "the tenant's model was changed")
