"""One of the models of a tenant: where its texts are embedded, and the partitions of that model's vectors."""

import asyncio

import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import FingerprintMismatch, InvalidVector, ModelChanged, TenantQuarantined
from precall.engine.footprint import Footprint
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.engine.memory.migration import StoredModel
from precall.engine.memory.store import TenantStore
from precall.engine.models import Model
from precall.engine.residency import Residency
from precall.engine.resident_partitions import LoadedPartition, ResidentPartitions


class TenantModel:
    """Whoever makes a vector with it searches with it: its partitions hold vectors of no other model.

    Only the event loop may call in.
    """

    def __init__(
        self,
        store: TenantStore,
        model: Model,
        settings: PartitionSettings,
        residency: Residency,
        loads: asyncio.Semaphore,
    ) -> None:
        """``loads``: what all tenants' loads from the disk take one of."""
        self._store = store
        self._model = model
        self._settings = settings
        self.partitions = ResidentPartitions(store.tenant_id, residency, loads, lambda rung: self._load(rung))
        self.texts_cut = 0
        """Memories whose text it read in part while the tenant came to it, since the tenant was opened;
        those that were destroyed since among them.
        """
        self.is_far_behind = False
        """Whether the backfill has more to make than the batch in hand. Near its end writes make their own
        vectors again, or it would never catch up with them.
        """
        self._retired = False

    @property
    def card(self) -> ModelCard:
        return self._model.card

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def batcher(self) -> Batcher:
        return self._model.batcher

    @property
    def stored(self) -> StoredModel:
        """As the tenant's file speaks of it."""
        return StoredModel(self.fingerprint, self.card.dimension)

    async def embed_turn(self, text: str) -> NDArray[np.float32]:
        """What a conversation says, as a question: float32 unit vector, ``(card.dimension,)``. A long text is
        cut. Raises what `Batcher.embed_one` raises.
        """
        return await self.batcher.embed_one(
            text,
            TextRole.QUERY,
            tenant=self._store.tenant_id,
            work_class=WorkClass.CONVERSATION,
            truncate=True,
        )

    def retire(self) -> None:
        """The tenant gives the model up: no write reaches its partitions from here on."""
        self._retired = True
        self.partitions.clear()

    def require_kept(self) -> None:
        """Raises ModelChanged once the tenant has given the model up."""
        if self._retired:
            raise self.changed()

    def check_integrity(self) -> None:
        """Raise AssertionError when the partitions are not what the disk has of this model; for tests."""
        for rung, partition in self.partitions.items():
            partition.check_integrity()
            stored = {each.memory.id: each for each in self._store.load_rung(rung, self.fingerprint)}
            held = {each.memory.id: each for each in partition.all()}
            assert held.keys() == stored.keys()
            assert all(np.array_equal(held[i].vector, each.vector) for i, each in stored.items())

    def changed(self) -> ModelChanged:
        """What a search is told whose model is not the tenant's any more, or about not to be."""
        return ModelChanged(
            f"tenant {self._store.tenant_id!r} gave up model {self.fingerprint} meanwhile: ask again with "
            "the one that serves it now"
        )

    def _load(self, rung: Rung) -> LoadedPartition:
        """In a thread. Raises ModelChanged, TenantQuarantined."""
        dimension = self.card.dimension
        partition, footprint = Partition(rung, dimension, self._settings), Footprint(dimension)
        try:
            partition.fill(footprint.counted(self._store.load_blocks(rung, self.fingerprint)))
        except FingerprintMismatch as error:
            raise self.changed() from error
        except (InvalidVector, ValueError) as error:
            raise TenantQuarantined(
                f"the file of tenant {self._store.tenant_id!r} holds what cannot be indexed ({error}): "
                "restore it from a backup"
            ) from error
        return LoadedPartition(partition, footprint)
