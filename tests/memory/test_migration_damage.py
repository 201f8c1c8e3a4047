"""Damage to what a migration keeps: it is named, and no vector is taken for that of another model."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from precall.engine.errors import TenantQuarantined
from precall.engine.memory.ladder import Rung
from precall.engine.memory.next_vectors import NextVector, store_next_vectors
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore
from tests.memory.migrating import ALIKE, STATES, bring_to, settle, vector_of

DANA = Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]

FLIPPED = "UPDATE next_vectors SET vector = CAST(zeroblob(4) || substr(vector, 5) AS BLOB) WHERE number = 5"
OTHERS = (
    "UPDATE next_vectors SET (vector, checksum) = "
    "(SELECT vector, checksum FROM next_vectors WHERE number = 6) "
    "WHERE number = 5"
)
LOST = "DELETE FROM next_vectors WHERE number = 5"
MOVED_TWICE = (
    "INSERT INTO next_vectors SELECT 2, ballast, vector, checksum FROM next_vectors WHERE number = 5"
)
IN_PLACE = "UPDATE memories SET vector = CAST(zeroblob(4) || substr(vector, 5) AS BLOB) WHERE number = 5"


@pytest.fixture
def filled(store: TenantStore, prepare: Prepare) -> TenantStore:
    store.write([prepare(f"m{n}") for n in range(8)])
    return store


def harm(store: TenantStore, path: Path, statement: str) -> TenantStore:
    """The store, opened again after somebody else changed its file."""
    store.close()
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return TenantStore.open(path)


@pytest.mark.parametrize(
    ("state", "statement"),
    [
        ("ready", FLIPPED),
        ("ready", OTHERS),
        ("switched", FLIPPED),
        ("switched", OTHERS),
        ("switched", LOST),
        ("switched", IN_PLACE),
        ("finishing", FLIPPED),
        ("finishing", OTHERS),
        ("finishing", LOST),
        ("finishing", MOVED_TWICE),
        ("finishing", IN_PLACE),
    ],
)
def test_a_damaged_vector_is_never_served_nor_moved(
    filled: TenantStore, tmp_path: Path, state: str, statement: str
) -> None:
    bring_to(filled, state, ALIKE)
    harmed = harm(filled, tmp_path / "acme.db", statement)
    with pytest.raises(TenantQuarantined, match=r"row 5|row 2|'m4'"):
        list(harmed.load_rung(DANA, "model-3"))
    with pytest.raises(TenantQuarantined):
        list(harmed.load_blocks(DANA, "model-3"))
    with pytest.raises(TenantQuarantined):
        harmed.check_integrity()
    if state == "switched":
        harmed.finish_migration()
    if state != "ready":
        with pytest.raises(TenantQuarantined):
            settle(harmed)
    harmed.close()


def test_a_vector_that_was_moved_before_is_not_moved_again(filled: TenantStore) -> None:
    """Sound by itself, and of the new model: an older one, say, of a page that the disk did not write."""
    bring_to(filled, "finishing", ALIKE)
    with filled._database.writing() as connection:
        store_next_vectors(connection, [NextVector(2, vector_of(ALIKE, "older"))])
    for ask in (lambda: list(filled.load_rung(DANA)), filled.check_integrity, lambda: settle(filled)):
        with pytest.raises(TenantQuarantined):
            ask()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM migration",
        "UPDATE migration SET state = iif(state = 'switched', 'finishing', 'switched')",
        "UPDATE migration SET state = NULL, compared_queries = 1",
        "UPDATE migration SET settled = settled + 1",
        "UPDATE migration SET last = last + 1",
        "UPDATE migration SET to_dimension = to_dimension + 1",
        "UPDATE migration SET to_fingerprint = 'model-9'",
        "UPDATE migration SET checksum = checksum + 1",
    ],
)
def test_a_damaged_migration_is_not_followed(
    filled: TenantStore, tmp_path: Path, state: str, statement: str
) -> None:
    bring_to(filled, state, ALIKE)
    with pytest.raises(TenantQuarantined):
        harm(filled, tmp_path / "acme.db", statement)


@pytest.mark.parametrize("state", STATES)
def test_it_is_noticed_while_the_file_is_open(
    filled: TenantStore, tmp_path: Path, prepare: Prepare, state: str
) -> None:
    bring_to(filled, state)
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute("UPDATE migration SET serial = serial + 1")
    connection.commit()
    connection.close()
    for ask in (
        lambda: filled.migration,
        lambda: list(filled.load_rung(DANA)),
        lambda: filled.write([prepare("late")]),
        lambda: filled.delete(["m1"], visible_from=None),
        lambda: filled.settle_migration(3),
        lambda: filled.start_migration("model-9", 8),
        filled.roll_back_migration,
        filled.check_integrity,
    ):
        with pytest.raises(TenantQuarantined):
            ask()


@pytest.mark.parametrize("state", ["ready", "switched", "finishing", "finished", "rolled back"])
def test_the_settings_of_another_model_are_noticed(filled: TenantStore, tmp_path: Path, state: str) -> None:
    """Sound by their own checksum, as they were before the last step or will be after the next."""
    bring_to(filled, state, ALIKE)
    with filled._database.writing() as connection:
        connection.execute(
            "UPDATE meta SET model_fingerprint = iif(model_fingerprint = 'model-1', 'model-3', 'model-1')"
        )
    with pytest.raises(TenantQuarantined, match="different models"):
        list(filled.load_rung(DANA))


@pytest.mark.parametrize("state", ["none", "finished"])
def test_vectors_that_belong_to_nothing_are_found(filled: TenantStore, tmp_path: Path, state: str) -> None:
    bring_to(filled, state)
    harmed = harm(
        filled, tmp_path / "acme.db", "INSERT INTO next_vectors VALUES (5, zeroblob(480), zeroblob(24), 0)"
    )
    with pytest.raises(TenantQuarantined, match="does not migrate to"):
        harmed.check_integrity()
    harmed.close()
