"""Two models for a tenant of the tests, and short ways along a migration from the one to the other."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.migration import MigrationState, StoredModel
from precall.engine.memory.next_vectors import NextVector
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

OLD = StoredModel("model-1", 8)
NEW = StoredModel("model-2", 12)
ALIKE = StoredModel("model-3", 8)
"""Only the contents of its vectors tell it from `OLD`."""

MODELS = {model.fingerprint: model for model in (OLD, NEW, ALIKE)}
READY = "ready"
"""BACKFILLING, with nothing left to fill."""

STATES = ("none", "backfilling", READY, "switched", "finishing", "finished", "rolled back")


def vector_of(model: StoredModel, identity: str) -> NDArray[np.float16]:
    """What a model makes of the memory of this id; `prepare` gives `OLD`'s."""
    seed = list(identity.encode()) if model == OLD else [*model.fingerprint.encode(), *identity.encode()]
    vector = np.random.default_rng(seed).normal(size=model.dimension)
    unit: NDArray[np.float16] = (vector / np.linalg.norm(vector)).astype(np.float16)
    return unit


def by_models(store: TenantStore, prepared: PreparedMemory) -> PreparedMemory:
    """With the vectors of the models that the store wants now."""
    identity, other = prepared.memory.id, store.other
    return replace(
        prepared,
        vector=vector_of(store.serving, identity),
        other_vector=None if other is None else vector_of(other, identity),
    )


def backfill(store: TenantStore, *, limit: int = 3, batches: int = 1_000) -> None:
    """``batches``: at most so many. The text of a memory must say its id second, as `prepare`'s does."""
    migration = store.migration
    assert migration is not None
    model = MODELS[migration.to_fingerprint]
    for _ in range(batches):
        lacking = store.lacking(limit)
        if not lacking:
            return
        store.add_next_vectors(
            [NextVector(each.number, vector_of(model, each.text.split()[1])) for each in lacking],
            fingerprint=model.fingerprint,
        )


def settle(store: TenantStore, *, limit: int = 3) -> None:
    while store.settle_migration(limit):
        pass


def start(store: TenantStore, model: StoredModel) -> None:
    """As the engine does it: what is left of one that was rolled back goes first."""
    if store.migration_state is MigrationState.ROLLED_BACK:
        settle(store)
    store.start_migration(model.fingerprint, model.dimension)


def bring_to(store: TenantStore, state: str, model: StoredModel = NEW) -> None:
    """From a store without a migration to one of `STATES`; the last three half done where they can be."""
    if state == "none":
        return
    store.start_migration(model.fingerprint, model.dimension)
    backfill(store, limit=2, batches=2 if state in ("backfilling", "rolled back") else 1_000)
    steps: dict[str, Callable[[], object]] = {
        "switched": lambda: None,
        "finishing": store.finish_migration,
        "finished": lambda: (store.finish_migration(), settle(store)),
    }
    if state in steps:
        store.switch_migration()
        steps[state]()
    if state == "rolled back":
        store.roll_back_migration()
    if state in ("finishing", "rolled back"):
        assert store.settle_migration(3)


def state_of(store: TenantStore) -> MigrationState | None:
    migration = store.migration
    state = None if migration is None else migration.state
    assert store.migration_state == state
    return state


def contents(indexed: Iterable[IndexedMemory]) -> dict[str, bytes]:
    """Id -> vector, as bytes."""
    return {each.memory.id: each.vector.tobytes() for each in indexed}


def made_by(model: StoredModel, ids: Iterable[str]) -> dict[str, bytes]:
    """What `contents` must be when only this model's vectors are in it."""
    return {identity: vector_of(model, identity).tobytes() for identity in ids}


def loaded(store: TenantStore, rung: Rung, fingerprint: str | None = None) -> dict[str, bytes]:
    """`contents` of a rung, by both ways to load it."""
    one_by_one = contents(store.load_rung(rung, fingerprint))
    blocks = list(store.load_blocks(rung, fingerprint))
    in_blocks = {
        identity: vector.tobytes()
        for block in blocks
        for identity, vector in zip(block.ids, block.features.vectors, strict=True)
    }
    assert in_blocks == one_by_one
    return one_by_one
