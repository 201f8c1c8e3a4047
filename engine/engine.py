"""The engine: one model or two, one folder of tenants, one anticipator."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.observer import AnticipationObserver, SilentObserver
from precall.engine.anticipation.predictor_set import PredictorSet
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.observer import BatchObserver
from precall.engine.batching.settings import BatchingSettings
from precall.engine.clock import Clock, SystemClock
from precall.engine.encoding.encoder import Encoder
from precall.engine.errors import FingerprintMismatch, TenantNotFound, TenantQuarantined
from precall.engine.expiry_sweep import ExpirySweep
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.store import TenantStore
from precall.engine.model_pair import ModelPair
from precall.engine.models import Model, Models
from precall.engine.residency import Residency, ResidencyObserver, ResidencySettings
from precall.engine.retrieval.canary import RecallCanary, RecallObserver
from precall.engine.retrieval.past import Past
from precall.engine.tenant import Tenant
from precall.engine.tenant_model import TenantModel


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """``data_dir`` holds the tenants' files and belongs to one process at a time. ``expiry_seconds``: between
    two looks for memories that have expired and are to be destroyed; nobody is shown them meanwhile.
    ``next_batching``: of the next model; None: as ``batching``.
    """

    data_dir: Path
    anticipation: AnticipationSettings = field(default_factory=AnticipationSettings)
    partitions: PartitionSettings = field(default_factory=PartitionSettings)
    batching: BatchingSettings = field(default_factory=BatchingSettings)
    next_batching: BatchingSettings | None = None
    residency: ResidencySettings = field(default_factory=ResidencySettings)
    expiry_seconds: float = 30.0


class Engine:
    """Everything precall does, without the network. Only the event loop may call in."""

    def __init__(
        self,
        settings: EngineSettings,
        encoder: Encoder,
        *,
        next_encoder: Encoder | None = None,
        clock: Clock | None = None,
        batch_observer: BatchObserver | None = None,
        anticipation_observer: AnticipationObserver | None = None,
        recall_observer: RecallObserver | None = None,
        residency_observer: ResidencyObserver | None = None,
    ) -> None:
        """``encoder``: of the primary model, which new tenants get. ``next_encoder``: of another one, that
        tenants may migrate to, or come from. Raises ConfigurationError when it is the same, and for a
        language model that cannot be asked.
        """
        self.settings = settings
        self.clock = clock or SystemClock()
        primary = Model(encoder, Batcher(encoder, settings.batching, observer=batch_observer))
        other = None
        if next_encoder is not None:
            batching = settings.next_batching or settings.batching
            other = Model(next_encoder, Batcher(next_encoder, batching, observer=batch_observer))
        self.models = Models(primary, other)
        self.registry = TenantRegistry(
            settings.data_dir, clock=self.clock.wall, open_files=settings.residency.open_files
        )
        self.residency = Residency(settings.residency.budget_bytes, residency_observer)
        self._loads = asyncio.Semaphore(settings.residency.loads_at_once)
        self._predictors = PredictorSet.of(settings.anticipation, self.clock)
        self.anticipator = Anticipator(
            settings.anticipation,
            self._predictors.predictors,
            self.clock,
            anticipation_observer or SilentObserver(),
            self._predictors.learners,
        )
        self._canary = RecallCanary(recall_observer)
        self._past = Past()
        self._tenants: dict[str, Tenant] = {}
        self._expiry = ExpirySweep(lambda: list(self._tenants.values()), settings.expiry_seconds)
        self._openings: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._leaving: set[str] = set()

    @property
    def encoder(self) -> Encoder:
        """Of the primary model."""
        return self.models.primary.encoder

    @property
    def batcher(self) -> Batcher:
        """Of the primary model."""
        return self.models.primary.batcher

    async def start(self) -> None:
        """Raises what `Batcher.start` raises, of any model."""
        for model in self.models:
            await model.batcher.start()
        self._expiry.start()

    async def close(self) -> None:
        """Finish what runs, then close every file."""
        await self._expiry.close()
        self._canary.close()
        await self.anticipator.drain(grace_seconds=0)
        await self._predictors.close()
        for model in self.models:
            await model.batcher.close()
        for tenant in list(self._tenants.values()):
            await tenant.close(lease_seconds=self.anticipator.longest_lease)
        self._tenants.clear()
        self.registry.close()  # from here on it refuses what was about to be opened

    async def create_tenant(self, tenant_id: str, ladder: Ladder) -> Tenant:
        """Raises AlreadyExists or InvalidInput."""
        async with self._opening(tenant_id):
            tenant = await asyncio.to_thread(self._create, tenant_id, ladder)
            self._tenants[tenant_id] = tenant
            return tenant

    async def tenant(self, tenant_id: str) -> Tenant:
        """The tenant, opened if need be. Raises TenantNotFound, TenantQuarantined, FingerprintMismatch."""
        tenant = self._tenants.get(tenant_id)
        if tenant is not None:
            return tenant
        async with self._opening(tenant_id), self._loads:
            if tenant_id in self._leaving:
                raise _not_found(tenant_id)
            if tenant_id not in self._tenants:
                tenant = self._tenants[tenant_id] = await asyncio.to_thread(self._open, tenant_id)
                tenant.resume()
            return self._tenants[tenant_id]

    async def delete_tenant(self, tenant_id: str) -> None:
        """Destroy a tenant: its sessions, every cached copy, its files. Raises TenantNotFound.

        One that cannot be opened, being damaged or of another model, can be destroyed all the same.
        """
        with contextlib.suppress(TenantQuarantined, FingerprintMismatch):
            await self.tenant(tenant_id)
        if tenant_id in self._leaving:
            raise _not_found(tenant_id)
        self._leaving.add(tenant_id)  # the waits below take seconds: other tenants must open meanwhile
        try:
            tenant = self._tenants.pop(tenant_id, None)
            await self.anticipator.drop_tenant(tenant_id)
            if tenant is not None:
                await tenant.wait_for_earlier_leases()
                await tenant.close(lease_seconds=0)
            await asyncio.to_thread(self.registry.delete, tenant_id)
        finally:
            self._leaving.discard(tenant_id)

    def tenant_ids(self) -> Sequence[str]:
        return self.registry.list()

    def is_open(self, tenant_id: str) -> bool:
        """Whether its file is open or some of it in memory; else it is cold, and the first read loads it."""
        tenant = self._tenants.get(tenant_id)
        return tenant is not None and (tenant.in_memory > 0 or self.registry.is_open(tenant_id))

    @property
    def open_tenants(self) -> int:
        """Tenants whose files are open now."""
        return self.registry.open_files

    def _opening(self, tenant_id: str) -> asyncio.Lock:
        """A tenant is made or opened once at a time, and no tenant waits for another."""
        return self._openings.setdefault(tenant_id, asyncio.Lock())

    # In a thread

    def _create(self, tenant_id: str, ladder: Ladder) -> Tenant:
        card = self.encoder.card
        return self._attended(
            self.registry.create(
                tenant_id, ladder=ladder, model_fingerprint=card.fingerprint, dimension=card.dimension
            )
        )

    def _open(self, tenant_id: str) -> Tenant:
        store = self.registry.open(tenant_id)
        try:
            return self._attended(store)
        except FingerprintMismatch:
            store.close()
            raise

    def _attended(self, store: TenantStore) -> Tenant:
        pair = ModelPair(store, self.models, lambda model: self._model_of(store, model))
        return Tenant(store, pair, self.anticipator, self.clock, self._canary, self._past)

    def _model_of(self, store: TenantStore, model: Model) -> TenantModel:
        return TenantModel(store, model, self.settings.partitions, self.residency, self._loads)


def _not_found(tenant_id: str) -> TenantNotFound:
    return TenantNotFound(f"tenant {tenant_id!r} is being deleted")
