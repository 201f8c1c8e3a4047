"""The steps from one model to another: which lead where, what is refused, and whose vectors are read."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from precall.engine.errors import FingerprintMismatch, InvalidInput, InvalidVector, MigrationRefused
from precall.engine.memory.ladder import Rung
from precall.engine.memory.migration import MigrationState
from precall.engine.memory.next_vectors import NextVector
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.snapshot import Snapshot
from precall.engine.memory.store import TenantStore
from tests.memory.migrating import (
    ALIKE,
    MODELS,
    NEW,
    OLD,
    READY,
    STATES,
    backfill,
    bring_to,
    contents,
    loaded,
    made_by,
    settle,
    start,
    state_of,
    vector_of,
)

ACME, DANA = Rung(("acme",)), Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]

SERVES = {state: OLD if state in ("none", "backfilling", READY, "rolled back") else NEW for state in STATES}
OTHER = {"backfilling": NEW, READY: NEW, "switched": OLD}
STEPS: dict[str, Callable[[TenantStore], object]] = {
    "start": lambda store: start(store, ALIKE),
    "backfill": lambda store: store.lacking(3),
    "add": lambda store: store.add_next_vectors([NextVector(1, vector_of(NEW, "m0"))]),
    "compare": lambda store: store.note_comparison(0.5, 10),
    "switch": TenantStore.switch_migration,
    "roll back": TenantStore.roll_back_migration,
    "finish": TenantStore.finish_migration,
}
ALLOWED = {
    "none": {"start"},
    "backfilling": {"backfill", "add", "compare", "roll back"},
    READY: {"backfill", "add", "compare", "switch", "roll back"},
    "switched": {"compare", "roll back", "finish"},
    "finishing": set(),
    "finished": {"start"},
    "rolled back": {"start"},
}


@pytest.fixture
def filled(store: TenantStore, prepare: Prepare) -> TenantStore:
    """Seven memories on a rung, two of them history, and one above it."""
    store.write([prepare(f"m{n}", key="k" if n < 3 else "", at=n) for n in range(7)])
    store.write([prepare("above", ACME)])
    return store


CURRENT = [f"m{n}" for n in range(2, 7)]


def test_the_whole_way(filled: TenantStore, tmp_path: Path) -> None:
    def told() -> tuple[object, ...]:
        return filled.migration, filled.serving, filled.other, filled.model_fingerprint, filled.dimension

    def is_told_after_opening(state: MigrationState, done: int) -> None:
        nonlocal filled
        migration = filled.migration
        assert migration is not None
        assert (migration.state, migration.done, migration.total) == (state, done, 8)
        assert (migration.from_fingerprint, migration.from_dimension) == ("model-1", 8)
        assert (migration.to_fingerprint, migration.to_dimension) == ("model-2", 12)
        assert migration.serving_fingerprint == filled.serving.fingerprint == filled.model_fingerprint
        before = told()
        filled.close()
        filled = TenantStore.open(tmp_path / "acme.db")
        assert told() == before
        filled.check_integrity()
        assert filled.version == 2, "no memory was changed"

    assert (filled.migration, filled.serving, filled.other) == (None, OLD, None)
    filled.start_migration("model-2", 12)
    is_told_after_opening(MigrationState.BACKFILLING, 0)
    backfill(filled, batches=1)
    is_told_after_opening(MigrationState.BACKFILLING, 3)
    assert filled.migration is not None and not filled.migration.ready
    backfill(filled)
    filled.note_comparison(0.875, 40)
    is_told_after_opening(MigrationState.BACKFILLING, 8)
    assert filled.migration.ready and (filled.serving, filled.other) == (OLD, NEW)
    filled.switch_migration()
    is_told_after_opening(MigrationState.SWITCHED, 8)
    assert (filled.serving, filled.other) == (NEW, OLD)
    filled.finish_migration()
    is_told_after_opening(MigrationState.FINISHING, 0)
    assert filled.settle_migration(3)
    is_told_after_opening(MigrationState.FINISHING, 3)
    settle(filled)
    is_told_after_opening(MigrationState.FINISHED, 8)
    assert (filled.serving, filled.other, filled.migration.ready) == (NEW, None, False)
    assert (filled.migration.overlap_at_10, filled.migration.compared_queries) == (0.875, 40)
    assert loaded(filled, DANA) == made_by(NEW, CURRENT)
    filled.start_migration("model-1", 8)  # and back again, by the same way
    backfill(filled)
    filled.switch_migration()
    assert loaded(filled, DANA) == made_by(OLD, CURRENT)
    filled.close()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_taken_where_it_leads_on_and_refused_elsewhere(
    filled: TenantStore, state: str, step: str
) -> None:
    bring_to(filled, state)
    before = (filled.migration, filled.serving, filled.other)
    if step in ALLOWED[state]:
        STEPS[step](filled)
    else:
        with pytest.raises(MigrationRefused, match=rf"'acme' cannot {'backfill' if step == 'add' else step}"):
            STEPS[step](filled)
        assert (filled.migration, filled.serving, filled.other) == before
    filled.check_integrity()


@pytest.mark.parametrize("state", ["backfilling", READY, "switched"])
def test_a_way_back_leads_to_what_was(filled: TenantStore, state: str) -> None:
    bring_to(filled, state)
    filled.roll_back_migration()
    assert (state_of(filled), filled.serving, filled.other) == (MigrationState.ROLLED_BACK, OLD, None)
    assert loaded(filled, DANA) == made_by(OLD, CURRENT)
    left = filled.migration
    assert left is not None and left.done > 3
    assert filled.settle_migration(3) and filled.migration.done == left.done - 3
    filled.check_integrity()
    with pytest.raises(MigrationRefused, match="still being removed"):
        filled.start_migration(ALIKE.fingerprint, ALIKE.dimension)
    start(filled, ALIKE)
    assert filled.migration.done == 0
    assert len(filled.lacking(99)) == 8
    backfill(filled)
    assert loaded(filled, DANA, "model-3") == made_by(ALIKE, CURRENT)


@pytest.mark.parametrize("state", STATES)
def test_each_model_is_read_by_itself_in_every_state(filled: TenantStore, state: str) -> None:
    bring_to(filled, state)
    then = datetime.now(UTC)
    assert filled.serving == SERVES[state] and filled.other == OTHER.get(state)
    expected = made_by(SERVES[state], CURRENT)
    assert loaded(filled, DANA) == loaded(filled, DANA, SERVES[state].fingerprint) == expected
    assert contents(filled.load_rung_as_of(DANA, then)) == expected
    assert loaded(filled, ACME) == made_by(SERVES[state], ["above"])
    for model in MODELS.values():
        if model == OTHER.get(state):
            # Four of the eight are filled: m0 to m3, of which m0 and m1 are history.
            other = made_by(model, ["m2", "m3"] if state == "backfilling" else CURRENT)
            assert loaded(filled, DANA, model.fingerprint) == other
            assert contents(filled.load_rung_as_of(DANA, then, model.fingerprint)) == other
        elif model != SERVES[state]:
            with pytest.raises(FingerprintMismatch, match=f"no vectors of model {model.fingerprint}"):
                list(filled.load_rung(DANA, model.fingerprint))
            with pytest.raises(FingerprintMismatch):
                list(filled.load_blocks(DANA, model.fingerprint))
            with pytest.raises(FingerprintMismatch):
                list(filled.load_rung_as_of(DANA, then, model.fingerprint))


@pytest.mark.parametrize("state", STATES)
def test_an_export_speaks_of_the_model_that_serves(filled: TenantStore, tmp_path: Path, state: str) -> None:
    bring_to(filled, state)
    with Snapshot(tmp_path / "acme.db") as snapshot:
        assert snapshot.settings.model_fingerprint == SERVES[state].fingerprint
        assert snapshot.settings.dimension == SERVES[state].dimension
        everything = [f"m{n}" for n in range(7)] + ["above"]
        assert contents(snapshot.memories()) == made_by(SERVES[state], everything)
        snapshot.check_integrity()


def test_what_stood_then_is_read_with_the_new_model(store: TenantStore, prepare: Prepare) -> None:
    seconds = [1_700_000_000.0]
    store._clock = lambda: seconds[0]
    store.write([prepare("before", key="k")])
    seconds[0] += 10
    store.write([prepare("after", key="k", at=1)])
    bring_to(store, "switched")
    then = datetime.fromtimestamp(seconds[0] - 5, UTC)
    assert contents(store.load_rung_as_of(DANA, then)) == made_by(NEW, ["before"])
    assert contents(store.load_rung_as_of(DANA, then, "model-1")) == made_by(OLD, ["before"])


def test_what_cannot_be_switched_says_how_far_it_is(filled: TenantStore) -> None:
    bring_to(filled, "backfilling")
    with pytest.raises(MigrationRefused, match="4 of 8 memories have a vector"):
        filled.switch_migration()


def test_an_empty_tenant_is_ready_at_once(store: TenantStore, prepare: Prepare) -> None:
    bring_to(store, "finished")
    assert (store.serving, state_of(store)) == (NEW, MigrationState.FINISHED)


@pytest.mark.parametrize(("fingerprint", "dimension"), [("", 8), ("model-2", 0)])
def test_what_names_no_model_is_refused(store: TenantStore, fingerprint: str, dimension: int) -> None:
    with pytest.raises(InvalidInput, match="a model has"):
        store.start_migration(fingerprint, dimension)


@pytest.mark.parametrize("state", ["none", "finished", "rolled back"])
def test_the_model_that_serves_is_not_migrated_to(filled: TenantStore, state: str) -> None:
    bring_to(filled, state)
    serving = SERVES[state].fingerprint
    with pytest.raises(MigrationRefused, match=f"served by model {serving} already"):
        filled.start_migration(serving, SERVES[state].dimension)
    filled.check_integrity()


def test_one_that_was_begun_goes_on_when_it_is_started_again(filled: TenantStore) -> None:
    bring_to(filled, "backfilling")
    before = filled.migration
    filled.start_migration(NEW.fingerprint, NEW.dimension)
    assert filled.migration == before, "nothing of what was made is lost"
    backfill(filled)
    filled.switch_migration()
    with pytest.raises(MigrationRefused, match="it is switched"):
        filled.start_migration(NEW.fingerprint, NEW.dimension)


def test_a_step_of_no_migration_says_that_there_is_none(filled: TenantStore) -> None:
    with pytest.raises(MigrationRefused, match="'acme' cannot roll back: it has no migration"):
        filled.roll_back_migration()


def test_backfill_passes_over_what_is_gone_or_there(filled: TenantStore) -> None:
    filled.start_migration("model-2", 12)
    lacking = filled.lacking(5)
    assert [(each.number, each.text) for each in lacking] == [(n + 1, f"what m{n} says") for n in range(5)]
    made = [NextVector(each.number, vector_of(NEW, each.text.split()[1])) for each in lacking]
    filled.add_next_vectors(made[2:3])
    filled.delete(["m4"], visible_from=None)
    changed = NextVector(made[2].number, vector_of(NEW, "another"))
    filled.add_next_vectors([made[0], changed, *made[3:]], fingerprint="model-2")
    assert loaded(filled, DANA, "model-2") == made_by(NEW, ["m2", "m3"])
    assert [each.number for each in filled.lacking(9)] == [2, 6, 7, 8]
    filled.check_integrity()


def test_backfill_finds_what_came_without_a_vector(filled: TenantStore, prepare: Prepare) -> None:
    bring_to(filled, READY)
    assert filled.lacking(1) == []
    filled.write([prepare("late")])
    assert [each.text for each in filled.lacking(9)] == ["what late says"]
    assert filled.migration is not None and not filled.migration.ready
    backfill(filled)
    assert filled.migration.ready


@pytest.mark.parametrize(
    "vector",
    [
        vector_of(OLD, "x"),
        np.full(12, np.nan, np.float16),
        np.zeros(12, np.float16),
        vector_of(NEW, "x").astype(np.float32),
    ],
)
def test_what_the_new_model_cannot_have_made_is_refused_whole(
    filled: TenantStore, vector: np.ndarray
) -> None:
    filled.start_migration("model-2", 12)
    with pytest.raises(InvalidVector, match="item 1:"):
        filled.add_next_vectors([NextVector(1, vector_of(NEW, "m0")), NextVector(2, vector)])
    assert filled.migration is not None and filled.migration.done == 0


def test_vectors_of_an_earlier_try_are_refused(filled: TenantStore) -> None:
    bring_to(filled, "rolled back", ALIKE)
    start(filled, NEW)
    with pytest.raises(MigrationRefused, match="it leads to model model-2"):
        filled.add_next_vectors([NextVector(1, vector_of(ALIKE, "m0"))], fingerprint="model-3")


@pytest.mark.parametrize(("overlap", "queries"), [(1.5, 1), (-0.1, 1), (float("nan"), 1), (0.5, -1)])
def test_what_is_no_share_is_not_noted(filled: TenantStore, overlap: float, queries: int) -> None:
    bring_to(filled, READY)
    with pytest.raises(InvalidInput, match="no share"):
        filled.note_comparison(overlap, queries)


@pytest.mark.parametrize("ask", [TenantStore.lacking, TenantStore.settle_migration])
def test_at_least_one_row_is_asked_for(
    filled: TenantStore, ask: Callable[[TenantStore, int], object]
) -> None:
    bring_to(filled, READY)
    with pytest.raises(InvalidInput, match="at least 1"):
        ask(filled, 0)


@pytest.mark.parametrize("state", ["none", "backfilling", "switched", "finished"])
def test_there_is_nothing_to_settle_in_between(filled: TenantStore, state: str) -> None:
    bring_to(filled, state)
    before = filled.migration
    assert not filled.settle_migration(3)
    assert filled.migration == before
