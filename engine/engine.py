"""The engine: one encoder, one batcher, one folder of tenants, one anticipator."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.observer import AnticipationObserver, SilentObserver
from precall.engine.anticipation.recent_turns import RecentTurns
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.observer import BatchObserver
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import WorkClass
from precall.engine.clock import Clock, SystemClock
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.errors import FingerprintMismatch, TenantNotFound, TenantQuarantined
from precall.engine.expiry_sweep import ExpirySweep
from precall.engine.index.partition import PartitionSettings
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.store import TenantStore
from precall.engine.retrieval.canary import RecallCanary, RecallObserver
from precall.engine.tenant import Tenant


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """``data_dir`` holds the tenants' files and belongs to one process at a time. ``expiry_seconds``: between
    two looks for memories that have expired and are to be destroyed; nobody is shown them meanwhile.
    """

    data_dir: Path
    anticipation: AnticipationSettings = field(default_factory=AnticipationSettings)
    partitions: PartitionSettings = field(default_factory=PartitionSettings)
    batching: BatchingSettings = field(default_factory=BatchingSettings)
    expiry_seconds: float = 30.0


class Engine:
    """Everything precall does, without the network. Only the event loop may call in."""

    def __init__(
        self,
        settings: EngineSettings,
        encoder: Encoder,
        *,
        clock: Clock | None = None,
        batch_observer: BatchObserver | None = None,
        anticipation_observer: AnticipationObserver | None = None,
        recall_observer: RecallObserver | None = None,
    ) -> None:
        self.settings = settings
        self.encoder = encoder
        self.clock = clock or SystemClock()
        self.batcher = Batcher(encoder, settings.batching, observer=batch_observer)
        self.registry = TenantRegistry(settings.data_dir, clock=self.clock.wall)
        self.anticipator = Anticipator(
            settings.anticipation,
            [
                RecentTurns(
                    self._embed_turn,
                    self.clock,
                    items_per_query=settings.anticipation.items_per_query,
                    scripts=encoder.card.scripts,
                )
            ],
            self.clock,
            anticipation_observer or SilentObserver(),
            encoder.card.fingerprint,
            encoder.card.scripts,
        )
        self._canary = RecallCanary(recall_observer)
        self._tenants: dict[str, Tenant] = {}
        self._expiry = ExpirySweep(lambda: list(self._tenants.values()), settings.expiry_seconds)
        self._opening = asyncio.Lock()
        self._leaving: set[str] = set()

    async def start(self) -> None:
        await self.batcher.start()
        self._expiry.start()

    async def close(self) -> None:
        """Finish what runs, then close every file."""
        await self._expiry.close()
        self._canary.close()
        await self.anticipator.drain(grace_seconds=0)
        await self.batcher.close()
        async with self._opening:
            for tenant in self._tenants.values():
                await tenant.close(lease_seconds=self.anticipator.longest_lease)
            self._tenants.clear()
            self.registry.close()

    async def create_tenant(self, tenant_id: str, ladder: Ladder) -> Tenant:
        """Raises AlreadyExists or InvalidInput."""
        async with self._opening:
            card = self.encoder.card
            store = await asyncio.to_thread(
                self.registry.create,
                tenant_id,
                ladder=ladder,
                model_fingerprint=card.fingerprint,
                dimension=card.dimension,
            )
            return self._attach(store)

    async def tenant(self, tenant_id: str) -> Tenant:
        """The tenant, opened if need be. Raises TenantNotFound, TenantQuarantined, FingerprintMismatch."""
        tenant = self._tenants.get(tenant_id)
        if tenant is not None:
            return tenant
        async with self._opening:
            if tenant_id in self._leaving:
                raise _not_found(tenant_id)
            if tenant_id in self._tenants:
                return self._tenants[tenant_id]
            store = await asyncio.to_thread(self.registry.open, tenant_id)
            if store.model_fingerprint != self.encoder.card.fingerprint:
                store.close()
                raise FingerprintMismatch(
                    f"tenant {tenant_id} was indexed by model {store.model_fingerprint}, this server runs "
                    f"{self.encoder.card.fingerprint}: start it with that model, or migrate the tenant"
                )
            return self._attach(store)

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
        return tenant_id in self._tenants

    @property
    def open_tenants(self) -> int:
        return len(self._tenants)

    def _attach(self, store: TenantStore) -> Tenant:
        tenant = Tenant(
            store, self.batcher, self.anticipator, self.clock, self.settings.partitions, self._canary
        )
        self._tenants[tenant.id] = tenant
        return tenant

    async def _embed_turn(self, tenant_id: str, text: str) -> NDArray[np.float32]:
        return await self.batcher.embed_one(
            text,
            TextRole.QUERY,
            tenant=tenant_id,
            work_class=WorkClass.CONVERSATION,
            deadline=None,
            truncate=True,
        )


def _not_found(tenant_id: str) -> TenantNotFound:
    return TenantNotFound(f"tenant {tenant_id!r} is being deleted")
