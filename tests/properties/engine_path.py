"""precall in this process, without the network."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from precall.engine.engine import Engine, EngineSettings
from precall.engine.errors import PrecallError
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import Memory, MemoryState, NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome
from precall.engine.memory.registry import TENANTS_FOLDER
from precall.engine.residency import ResidencySettings
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Tenant
from precall.scoring.terms import analyze
from precall.server.mapping.filters import passes
from tests.fakes.clock import FakeClock
from tests.fakes.encoder import FakeEncoder
from tests.fakes.memories import moment
from tests.properties.service import LEVELS, Destroyed, Found, Page, Refused, Seen, Wrote
from tests.properties.vectors import embed


@dataclass(frozen=True)
class Tightness:
    """How little there is of everything, so that few memories meet what many would. ``listed``: searches wait
    until codes stand in lists, where there are enough of them.
    """

    budget_bytes: int = 1
    open_files: int = 1
    listed: bool = False
    partitions: PartitionSettings = field(default_factory=lambda: PartitionSettings(exact_below=3))


class EnginePath:
    """A `Service` that calls `Engine` and `Tenant`."""

    def __init__(self, clock: FakeClock, tightness: Tightness) -> None:
        self.clock = clock
        self.tightness = tightness
        self.encoder = FakeEncoder()
        self.listed_searches = 0
        """Searches that read lists of codes."""
        self.data_dir = Path()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "start it first"
        return self._engine

    async def start(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._engine = Engine(
            EngineSettings(
                data_dir / TENANTS_FOLDER,
                partitions=self.tightness.partitions,
                residency=ResidencySettings(
                    budget_bytes=self.tightness.budget_bytes, open_files=self.tightness.open_files
                ),
            ),
            self.encoder,
            clock=self.clock,
        )
        await self._engine.start()

    async def stop(self) -> None:
        await self.engine.close()

    async def create(self, tenant: str) -> None:
        await self.engine.create_tenant(tenant, Ladder(LEVELS))

    async def drop(self, tenant: str) -> None:
        await self.engine.delete_tenant(tenant)

    async def write(self, tenant: str, batch: Sequence[NewMemory], request_id: str | None) -> Wrote:
        try:
            outcome = await (await self._tenant(tenant)).write(
                batch, [None] * len(batch), request_id=request_id, truncate=False
            )
        except PrecallError as error:
            raise Refused(error.reason) from error
        written = [
            (each.id, each.state is MemoryState.CURRENT, tuple(each.superseded_ids))
            for each in outcome.written
        ]
        return Wrote(outcome.version, written, outcome.replayed)

    async def delete(self, tenant: str, ids: Sequence[str], rung: Rung, request_id: str | None) -> Destroyed:
        found = await self._tenant(tenant)
        return _destroyed(await found.delete(ids, visible_from=rung, request_id=request_id))

    async def forget_scope(self, tenant: str, rung: Rung, request_id: str | None) -> Destroyed:
        return _destroyed(await (await self._tenant(tenant)).forget_scope(rung, request_id=request_id))

    async def forget_source(
        self, tenant: str, source: Source, rung: Rung, request_id: str | None
    ) -> Destroyed:
        found = await self._tenant(tenant)
        return _destroyed(await found.forget_source(source, visible_from=rung, request_id=request_id))

    async def sweep(self) -> None:
        for tenant_id in self.engine.tenant_ids():
            await (await self._tenant(tenant_id)).destroy_expired()

    async def search(
        self,
        tenant: str,
        rung: Rung,
        text: str,
        *,
        limit: int,
        asked: MemoryFilter | None = None,
        as_of: float | None = None,
        min_version: int = 0,
    ) -> Found:
        query = Query(
            embed(text),
            analyze(text),
            self.clock.wall() if as_of is None else as_of,
            limit,
            filter=asked,
        )
        partitions = await (await self._tenant(tenant)).partitions(rung)
        if self.tightness.listed:
            for partition in partitions:
                await asyncio.to_thread(partition.wait_until_listed)
        self.listed_searches += any(partition.listed for partition in partitions)
        try:
            found = await (await self._tenant(tenant)).search(
                rung, query, min_version=min_version, as_of=None if as_of is None else moment(as_of)
            )
        except PrecallError as error:
            raise Refused(error.reason) from error
        assert all(hit.memory.state is MemoryState.CURRENT for hit in found.hits)
        return Found(
            [(hit.memory.id, hit.score.total) for hit in found.hits],
            {hit.memory.id: hit.memory.text for hit in found.hits},
            found.version,
            found.visible,
        )

    async def page(
        self,
        tenant: str,
        rung: Rung,
        *,
        size: int,
        token: str = "",
        asked: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: float | None = None,
    ) -> Page:
        page = await asyncio.to_thread(
            (await self._tenant(tenant)).store.list_rung,
            rung,
            limit=size,
            after_token=token,
            include_history=include_history,
            matching=None if asked is None else lambda memory: passes(memory, asked),
            as_of=None if as_of is None else moment(as_of),
        )
        return Page(list(map(_seen, page.memories)), page.next_token, page.version)

    async def history(self, tenant: str, rung: Rung, key: str) -> list[Seen]:
        history = await asyncio.to_thread((await self._tenant(tenant)).store.history, rung, key)
        return list(map(_seen, history.memories))

    async def get(self, tenant: str, ids: Sequence[str], rung: Rung) -> list[Seen]:
        found = await asyncio.to_thread((await self._tenant(tenant)).store.get, ids, visible_from=rung)
        return list(map(_seen, found.memories))

    async def evict(self) -> None:
        residency = self.engine.residency
        budget, residency.budget_bytes = residency.budget_bytes, 0
        residency.make_room()
        residency.budget_bytes = budget

    async def back_up(self, tenant: str, folder: Path) -> Path:
        found = await self._tenant(tenant)
        return (await asyncio.to_thread(found.store.back_up, folder)).path

    async def restore(self, backup: Path, tenant: str) -> None:
        await asyncio.to_thread(self.engine.registry.restore, backup, tenant)

    async def check(self, tenant: str) -> None:
        found = await self._tenant(tenant)
        await asyncio.to_thread(found.store.check_integrity)
        await asyncio.to_thread(found.check_integrity)
        self.engine.residency.check_integrity()

    async def _tenant(self, tenant: str) -> Tenant:
        return await self.engine.tenant(tenant)


def _destroyed(outcome: DeleteOutcome) -> Destroyed:
    return Destroyed(
        outcome.version,
        len(outcome.deleted),
        outcome.replayed,
        frozenset(each.id for each in outcome.deleted),
        frozenset(outcome.missing_ids),
    )


def _seen(memory: Memory) -> Seen:
    current = memory.state is MemoryState.CURRENT
    return Seen(memory.id, memory.rung, memory.text, memory.key, current)
