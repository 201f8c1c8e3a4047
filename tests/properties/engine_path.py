"""precall in this process, without the network."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from precall.engine.engine import Engine, EngineSettings
from precall.engine.errors import ModelChanged, PrecallError
from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import Memory, MemoryState, NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome
from precall.engine.memory.registry import TENANTS_FOLDER
from precall.engine.preparing import GivenVector
from precall.engine.residency import ResidencySettings
from precall.engine.retrieval.query import Query
from precall.engine.tenant import Tenant
from precall.engine.tenant_model import TenantModel
from precall.scoring.terms import analyze
from precall.server.mapping.filters import passes
from tests.engine.two_models import HeldEncoder
from tests.fakes.clock import FakeClock
from tests.fakes.memories import moment
from tests.properties.service import LEVELS, Destroyed, Found, Given, Page, Refused, Seen, Standing, Wrote
from tests.properties.vectors import CARDS, embed


@dataclass(frozen=True)
class Tightness:
    """How little there is of everything, so that few memories meet what many would. ``listed``: searches wait
    until codes stand in lists, where there are enough of them.
    """

    budget_bytes: int = 1
    open_files: int = 1
    listed: bool = False
    partitions: PartitionSettings = field(default_factory=lambda: PartitionSettings(exact_below=3))

    def applied_to(self, settings: EngineSettings) -> EngineSettings:
        """What expired is destroyed when a life says so: a sweep of its own would come by the real clock."""
        residency = ResidencySettings(budget_bytes=self.budget_bytes, open_files=self.open_files)
        return replace(settings, partitions=self.partitions, residency=residency, expiry_seconds=1e6)


class EnginePath:
    """A `Service` that calls `Engine` and `Tenant`."""

    def __init__(self, clock: FakeClock, tightness: Tightness) -> None:
        self.clock = clock
        self.tightness = tightness
        self.encoders = {fingerprint: HeldEncoder(card) for fingerprint, card in CARDS.items()}
        self.listed_searches = 0
        """Searches that read lists of codes."""
        self.data_dir = Path()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "start it first"
        return self._engine

    async def start(self, data_dir: Path, models: Sequence[str]) -> None:
        primary, *others = (self.encoders[fingerprint] for fingerprint in models)
        self.data_dir = data_dir
        self._engine = Engine(
            self.tightness.applied_to(EngineSettings(data_dir / TENANTS_FOLDER)),
            primary,
            next_encoder=others[0] if others else None,
            clock=self.clock,
        )
        await self._engine.start()

    async def stop(self) -> None:
        await self.engine.close()

    async def create(self, tenant: str) -> None:
        await self.engine.create_tenant(tenant, Ladder(LEVELS))

    async def drop(self, tenant: str) -> None:
        await self.engine.delete_tenant(tenant)

    async def write(
        self,
        tenant: str,
        batch: Sequence[NewMemory],
        request_id: str | None,
        given: Sequence[Given | None] = (),
    ) -> Wrote:
        vectors = [None if each is None else GivenVector(each.vector, each.fingerprint) for each in given]
        with _refusals():
            outcome = await (await self._tenant(tenant)).write(
                batch, vectors or [None] * len(batch), request_id=request_id, truncate=False
            )
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
        by: str = "",
    ) -> Found:
        with _refusals():
            found = await self._tenant(tenant)
            while True:
                model = found.model(by)
                try:
                    return await self._search(
                        found,
                        model,
                        rung,
                        text,
                        limit=limit,
                        asked=asked,
                        as_of=as_of,
                        min_version=min_version,
                    )
                except ModelChanged:
                    if by:
                        raise

    async def _search(
        self,
        tenant: Tenant,
        model: TenantModel,
        rung: Rung,
        text: str,
        *,
        limit: int,
        asked: MemoryFilter | None,
        as_of: float | None,
        min_version: int,
    ) -> Found:
        query = Query(
            embed(model.fingerprint, text),
            analyze(text),
            self.clock.wall() if as_of is None else as_of,
            limit,
            filter=asked,
        )
        partitions = await tenant.partitions(rung, model)
        if self.tightness.listed:
            for partition in partitions:
                await asyncio.to_thread(partition.wait_until_listed)
        self.listed_searches += any(partition.listed for partition in partitions)
        found = await tenant.search(
            rung,
            query,
            model=model,
            min_version=min_version,
            as_of=None if as_of is None else moment(as_of),
        )
        assert all(hit.memory.state is MemoryState.CURRENT for hit in found.hits)
        return Found(
            [(hit.memory.id, hit.score.total) for hit in found.hits],
            {hit.memory.id: hit.memory.text for hit in found.hits},
            found.version,
            found.visible,
            model.fingerprint,
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

    async def step(self, tenant: str, step: str, goal: str) -> None:
        migrating = (await self._tenant(tenant)).migrating
        with _refusals():
            if step == "start":
                await migrating.start(self.engine.models.named(goal))
            else:
                await {
                    "switch": migrating.switch, "roll back": migrating.roll_back, "finish": migrating.finish
                }[step]()  # fmt: skip

    async def rest(self, tenant: str) -> None:
        await (await self._tenant(tenant)).migrating.settled()

    async def standing(self, tenant: str) -> Standing | None:
        report = await (await self._tenant(tenant)).migrating.report()
        migration = report.migration
        if migration is None:
            return None
        return Standing(
            "READY" if migration.ready else migration.state.name,
            migration.from_fingerprint,
            migration.to_fingerprint,
            migration.serving_fingerprint,
            migration.done,
            migration.total,
            report.error,
        )

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


@contextmanager
def _refusals() -> Iterator[None]:
    """Raises Refused for every error of precall's."""
    try:
        yield
    except PrecallError as error:
        raise Refused(error.reason) from error


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
