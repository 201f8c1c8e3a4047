"""Whatever is written or destroyed while a tenant changes its model carries both models' vectors, or none."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from precall.engine.errors import InvalidVector, ModelChanged
from precall.engine.memory.group import AskedWrite
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, MemoryKind, Source
from precall.engine.memory.migration import StoredModel
from precall.engine.memory.next_vectors import NextVector
from precall.engine.memory.outcomes import WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from tests.memory.migrating import (
    ALIKE,
    NEW,
    OLD,
    READY,
    STATES,
    backfill,
    bring_to,
    by_models,
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
TWO_MODELS = ("backfilling", READY, "switched")


def says(prepare: Prepare, store: TenantStore, identity: str, **fields: object) -> PreparedMemory:
    return by_models(store, prepare(identity, **fields))


def turn(prepare: Prepare, store: TenantStore, identity: str, minutes: int) -> PreparedMemory:
    """A turn of a conversation, so that those around it change its weights."""
    moment = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    return by_models(
        store,
        prepare(
            identity,
            kind=MemoryKind.EPISODE,
            source=Source("conversation", identity),
            event_time=moment,
            said_time=moment,
        ),
    )


def others(indexed: Iterable[IndexedMemory]) -> dict[str, bytes]:
    return {each.memory.id: each.other_vector.tobytes() for each in indexed if each.other_vector is not None}


def is_as_reloaded(store: TenantStore, outcome: Iterable[IndexedMemory], ids: list[str]) -> None:
    """What is handed on has, of each model, what a reload gives."""
    handed_on = list(outcome)
    assert sorted(each.memory.id for each in handed_on) == sorted(ids)
    reloaded = {each.memory.id: each for each in store.load_rung(DANA) if each.memory.id in ids}
    for each in handed_on:
        assert each.memory == reloaded[each.memory.id].memory
        assert each.impacts == reloaded[each.memory.id].impacts
        assert not each.vector.flags.writeable and reloaded[each.memory.id].other_vector is None
    assert contents(handed_on) == contents(reloaded.values()) == made_by(store.serving, ids)
    if store.other is None:
        assert others(handed_on) == {}
    else:
        of_other = contents(store.load_rung(DANA, store.other.fingerprint))
        assert others(handed_on) == {identity: of_other[identity] for identity in ids if identity in of_other}


@pytest.mark.parametrize("state", STATES)
def test_a_write_carries_what_the_state_wants(store: TenantStore, prepare: Prepare, state: str) -> None:
    store.write([prepare(f"m{n}", key="k" if n == 0 else "") for n in range(6)])
    bring_to(store, state)
    outcome = store.write([says(prepare, store, "new", key="k", at=1), says(prepare, store, "plain")])
    is_as_reloaded(store, outcome.added, ["new", "plain"])
    assert [removed.id for removed in outcome.removed] == ["m0"]
    if state in TWO_MODELS:
        assert others(outcome.added) == made_by(store.other or OLD, ["new", "plain"])
    store.check_integrity()
    if state in ("backfilling", READY):
        backfill(store)
        store.switch_migration()
    if state in TWO_MODELS:
        assert loaded(store, DANA, "model-1") == made_by(
            OLD, [*(f"m{n}" for n in range(1, 6)), "new", "plain"]
        )
        store.finish_migration()
    settle(store)
    serving = OLD if state in ("none", "rolled back") else NEW
    assert loaded(store, DANA) == made_by(serving, [*(f"m{n}" for n in range(1, 6)), "new", "plain"])
    store.check_integrity()


@pytest.mark.parametrize("model", [NEW, ALIKE])
@pytest.mark.parametrize("state", STATES)
def test_what_is_weighed_anew_keeps_its_vectors(
    store: TenantStore, prepare: Prepare, state: str, model: StoredModel
) -> None:
    store.write([turn(prepare, store, f"t{n}", 10 * n) for n in (1, 2, 3, 4)])
    bring_to(store, state, model)
    late = store.write([turn(prepare, store, "t0", 0)])
    is_as_reloaded(store, late.reweighed, ["t1", "t2"])
    gone = store.delete(["t2"], visible_from=None)
    is_as_reloaded(store, gone.reweighed, ["t3", "t4"])
    assert loaded(store, DANA) == made_by(store.serving, ["t1", "t3", "t4", "t0"])
    store.check_integrity()


def test_a_write_whose_new_vector_failed_is_stored_all_the_same(store: TenantStore, prepare: Prepare) -> None:
    bring_to(store, "backfilling")
    outcome = store.write([prepare("m")])
    assert outcome.added[0].other_vector is None
    assert loaded(store, DANA, "model-2") == {}
    backfill(store)
    assert loaded(store, DANA, "model-2") == made_by(NEW, ["m"])


def test_after_the_switch_both_are_needed(store: TenantStore, prepare: Prepare) -> None:
    bring_to(store, "switched")
    lacking = replace(says(prepare, store, "b"), other_vector=None)
    with pytest.raises(InvalidVector, match="item 1: a vector of each"):
        store.write([says(prepare, store, "a"), lacking])
    assert store.version == 0


@pytest.mark.parametrize("state", TWO_MODELS)
def test_another_models_vector_is_refused(store: TenantStore, prepare: Prepare, state: str) -> None:
    bring_to(store, state)
    good = says(prepare, store, "a")
    for bad in (
        replace(good, vector=good.other_vector, other_vector=good.vector),
        replace(good, other_vector=np.full_like(good.other_vector, np.inf)),
        replace(good, other_vector=good.other_vector[:-1]),
    ):
        with pytest.raises(InvalidVector, match="item 0"):
            store.write([bad])


@pytest.mark.parametrize("state", ["none", "finishing", "finished", "rolled back"])
def test_a_vector_that_nobody_keeps_any_more_is_dropped(
    store: TenantStore, prepare: Prepare, state: str
) -> None:
    there = [f"m{n}" for n in range(5)]
    store.write([prepare(identity) for identity in there])
    bring_to(store, state)
    late = replace(says(prepare, store, "late"), other_vector=vector_of(ALIKE, "late"))
    (added,) = store.write([late]).added
    assert added.other_vector is None
    assert loaded(store, DANA) == made_by(store.serving, [*there, "late"])
    store.check_integrity()


def test_what_was_prepared_for_another_model_fails_alone(store: TenantStore, prepare: Prepare) -> None:
    def asked(identity: str) -> AskedWrite:
        other = store.other and store.other.fingerprint
        return AskedWrite([says(prepare, store, identity)], serving=store.model_fingerprint, other=other)

    early = asked("early")
    bring_to(store, READY, ALIKE)
    ready = asked("ready")
    store.switch_migration()
    results = store.write_group([early, asked("now"), ready, asked("then")])
    assert [type(each) for each in results] == [ModelChanged, WriteOutcome, ModelChanged, WriteOutcome]
    assert "model-3 serves the tenant now, not model-1" in str(results[0])
    assert loaded(store, DANA) == made_by(ALIKE, ["now", "then"])
    assert loaded(store, DANA, "model-1") == made_by(OLD, ["now", "then"])


def test_vectors_of_an_earlier_try_are_not_taken_for_those_of_this_one(
    store: TenantStore, prepare: Prepare
) -> None:
    bring_to(store, "backfilling", ALIKE)
    late = AskedWrite([says(prepare, store, "m")], serving="model-1", other="model-3")
    store.roll_back_migration()
    twin = StoredModel("model-4", 8)
    start(store, twin)
    (outcome,) = store.write_group([late])
    assert isinstance(outcome, WriteOutcome) and outcome.added[0].other_vector is None
    assert [each.text for each in store.lacking(9)] == ["what m says"]
    assert loaded(store, DANA, "model-4") == {}


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))


def pieces(vector: np.ndarray) -> list[bytes]:
    """Of a vector as it stands in the file, where it may be cut in two."""
    content = vector.astype("<f2").tobytes()
    return [content[start : start + 12] for start in range(0, len(content) - 11, 12)]


@pytest.mark.parametrize("how", ["delete", "forget_scope", "forget_source", "destroy_expired"])
@pytest.mark.parametrize("state", ["backfilling", "switched"])
def test_nothing_is_left_of_the_second_vector_of_what_is_destroyed(
    store: TenantStore, tmp_path: Path, prepare: Prepare, state: str, how: str
) -> None:
    """A long vector, of which SQLite would keep a part in the tree, where copies may be left behind."""
    big = StoredModel("model-5", 700)
    seconds = [datetime(2024, 5, 1, tzinfo=UTC).timestamp()]
    store._clock = lambda: seconds[0]
    eve = Rung(("acme", "eve"))
    ids = [f"m{n}" for n in range(40)]
    gone = ids[::3]
    written = [
        prepare(
            identity,
            eve if identity in gone else DANA,
            source=Source("doomed" if identity in gone else "kept", identity),
            expires_at=datetime.fromtimestamp(seconds[0] + 10, UTC) if identity in gone else None,
        )
        for identity in ids
    ]
    for begin in range(0, len(written), 5):
        store.write(written[begin : begin + 5])
    store.start_migration(big.fingerprint, big.dimension)
    for each in store.lacking(35 if state == "backfilling" else 40):
        store.add_next_vectors([NextVector(each.number, vector_of(big, each.text.split()[1]))])
    if state == "switched":
        store.switch_migration()
    assert store.checkpoint()
    before = bytes_on_disk(tmp_path / "acme.db")
    assert all(pieces(vector_of(big, identity))[1] in before for identity in ids[:35])
    if how == "delete":
        for start in range(0, len(gone), 5):
            store.delete(gone[start : start + 5], visible_from=None)
    elif how == "forget_scope":
        store.forget_scope(eve)
    elif how == "forget_source":
        store.forget_source(Source("doomed"), visible_from=None)
    else:
        seconds[0] += 20
        assert len(store.destroy_expired(limit=99).deleted) == len(gone)
    assert not store.erasure_is_pending
    content = bytes_on_disk(tmp_path / "acme.db")
    left = [i for i in gone for piece in pieces(vector_of(big, i)) if piece in content]
    assert left == []
    kept = [identity for identity in ids[:35] if identity not in gone]
    assert all(pieces(vector_of(big, identity))[1] in content for identity in kept)
    store.check_integrity()
    assert state_of(store) is not None


def test_a_second_vector_begins_behind_what_stays_in_the_tree(store: TenantStore, prepare: Prepare) -> None:
    """Where SQLite may leave copies of what it moved: see `precall.engine.memory.schema`."""
    store.write([prepare("m")])
    bring_to(store, "switched")
    with store._database.reading() as connection:
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        (ballast,) = connection.execute("SELECT length(ballast) FROM next_vectors").fetchone()
        columns = [row[1] for row in connection.execute("PRAGMA table_info(next_vectors)")]
    assert ballast > page_bytes - 35 and columns.index("ballast") < columns.index("vector")
