"""A crash anywhere in a migration leaves it at one of two neighbouring points, and it goes on from there."""

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from precall.engine.errors import InvalidInput, StorageUnavailable
from precall.engine.memory.backup import check_backup
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.migration import Migration, MigrationState, StoredModel
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.store import TenantStore
from tests.memory.migrating import (
    ALIKE,
    MODELS,
    NEW,
    OLD,
    STATES,
    backfill,
    bring_to,
    by_models,
    loaded,
    made_by,
    settle,
)

DANA = Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]
IDS = [f"m{n}" for n in range(8)]


@dataclass(frozen=True)
class Moment:
    """The files as a crash would leave them, and what was true then."""

    folder: Path
    migration: Migration | None
    serving: StoredModel
    vectors: dict[str, bytes]


def copied(store: TenantStore, folder: Path) -> Moment:
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(store._database.path.with_name(f"acme.db{suffix}"), folder)
    return Moment(folder, store.migration, store.serving, loaded(store, DANA))


def go_on(store: TenantStore) -> None:
    """To the end that lies ahead, as a server would that starts again."""
    migration = store.migration
    if migration is not None and migration.state is MigrationState.BACKFILLING:
        backfill(store)
        store.switch_migration()
    if migration is not None and migration.state in (MigrationState.BACKFILLING, MigrationState.SWITCHED):
        store.finish_migration()
    settle(store)


@pytest.fixture
def filled(store: TenantStore, prepare: Prepare) -> TenantStore:
    store.write([prepare(identity) for identity in IDS])
    return store


def small_steps(store: TenantStore, *, back: bool) -> Iterator[None]:
    """A whole way, a transaction at a time."""
    store.start_migration(ALIKE.fingerprint, ALIKE.dimension)
    yield
    while store.lacking(1):
        backfill(store, limit=3, batches=1)
        yield
    store.note_comparison(0.5, 10)
    yield
    store.switch_migration()
    yield
    (store.roll_back_migration if back else store.finish_migration)()
    yield
    while store.settle_migration(3):
        yield
    yield


@pytest.mark.parametrize("back", [False, True])
def test_it_goes_on_from_any_point(filled: TenantStore, tmp_path: Path, prepare: Prepare, back: bool) -> None:
    moments = [
        copied(filled, tmp_path / f"crash{number}") for number, _ in enumerate(small_steps(filled, back=back))
    ]
    assert len({moment.migration for moment in moments}) == len(moments) >= 9
    for moment in moments:
        assert moment.vectors == made_by(moment.serving, IDS)
        reopened = TenantStore.open(moment.folder / "acme.db")
        reopened.check_integrity()
        assert (reopened.migration, reopened.serving) == (moment.migration, moment.serving)
        assert loaded(reopened, DANA) == moment.vectors
        reopened.write([by_models(reopened, prepare("late"))])
        go_on(reopened)
        was_rolled_back = moment.migration.state is MigrationState.ROLLED_BACK
        assert reopened.serving == (OLD if was_rolled_back else ALIKE)
        assert loaded(reopened, DANA) == made_by(reopened.serving, [*IDS, "late"])
        assert reopened.other is None
        reopened.check_integrity()
        with reopened._database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM next_vectors").fetchone()[0] == 0
        reopened.close()


MIGRATOR = """
import sys
from pathlib import Path
from precall.engine.memory.store import TenantStore
from tests.memory.migrating import MODELS, OLD, ALIKE, backfill, start

store = TenantStore.open(Path(sys.argv[1]))
while True:
    goal = ALIKE if store.serving == OLD else OLD
    state = store.migration.state.value if store.migration else "none"
    if state in ("none", "finished", "rolled back"):
        start(store, goal)
    elif state == "backfilling":
        backfill(store, limit=2, batches=1)
        if store.migration.ready:
            store.switch_migration()
    elif state == "switched":
        (store.finish_migration if goal == OLD else store.roll_back_migration)()
    else:
        store.settle_migration(2)
    print(store.serving.fingerprint, flush=True)
"""


def test_kill_9_in_the_middle_mixes_nothing(filled: TenantStore, tmp_path: Path) -> None:
    path = tmp_path / "acme.db"
    filled.close()
    chance = random.Random(20261130)
    for _ in range(4):
        with subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n{MIGRATOR}",
                str(path),
            ],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout
            for _ in range(chance.randint(1, 25)):
                assert process.stdout.readline()
            process.kill()
        reopened = TenantStore.open(path)
        reopened.check_integrity()
        for model in (reopened.serving, reopened.other):
            if model is not None:
                found = loaded(reopened, DANA, model.fingerprint)
                is_whole = model == reopened.serving or reopened.migration.done == len(IDS)
                assert found == made_by(model, IDS if is_whole else found)
        reopened.close()
    last = TenantStore.open(path)
    go_on(last)
    last.check_integrity()
    assert loaded(last, DANA) == made_by(last.serving, IDS)
    last.close()


@contextmanager
def refusing(store: TenantStore) -> Iterator[None]:
    """A limit of the connection stands in for a disk that is read-only."""
    store._database._writer.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        store._database._writer.execute("PRAGMA query_only = OFF")


@pytest.mark.parametrize("back", [False, True])
def test_a_step_that_the_disk_refuses_was_not_taken(filled: TenantStore, back: bool) -> None:
    steps: Sequence[Callable[[], object]] = [
        lambda: filled.start_migration("model-2", 12),
        lambda: backfill(filled, limit=9),
        lambda: filled.note_comparison(1.0, 1),
        filled.switch_migration,
        filled.roll_back_migration if back else filled.finish_migration,
        lambda: filled.settle_migration(4),
        lambda: settle(filled),
    ]
    for step in steps:
        before = (filled.migration, filled.serving, filled.other)
        with refusing(filled), pytest.raises(StorageUnavailable, match="nothing of it was kept"):
            step()
        assert (filled.migration, filled.serving, filled.other) == before
        filled.check_integrity()
        step()
        assert filled.migration != before[0]
    assert loaded(filled, DANA) == made_by(OLD if back else NEW, IDS)


@pytest.mark.parametrize("state", STATES)
def test_a_backup_is_served_as_it_was_and_goes_on(
    filled: TenantStore, tmp_path: Path, prepare: Prepare, state: str
) -> None:
    bring_to(filled, state)
    filled.write([by_models(filled, prepare("late"))])
    folder = tmp_path / "backups"
    folder.mkdir()
    backup = filled.back_up(folder)
    settings = check_backup(backup.path)
    assert (settings.model_fingerprint, settings.dimension) == (filled.model_fingerprint, filled.dimension)
    with TenantRegistry(tmp_path / "elsewhere") as registry:
        for model in MODELS.values():
            if model != filled.serving:
                with pytest.raises(InvalidInput, match=f"served by model {filled.model_fingerprint}, not by"):
                    registry.restore(backup.path, "globex", fingerprint=model.fingerprint)
        registry.restore(backup.path, "globex", fingerprint=filled.model_fingerprint)
        restored = registry.open("globex")
        assert (restored.migration, restored.serving) == (filled.migration, filled.serving)
        assert (restored.other, restored.version) == (filled.other, filled.version)
        assert loaded(restored, DANA) == made_by(filled.serving, [*IDS, "late"])
        if filled.other is not None:
            name = filled.other.fingerprint
            assert loaded(restored, DANA, name) == loaded(filled, DANA, name)
        go_on(restored)
        assert loaded(restored, DANA) == made_by(restored.serving, [*IDS, "late"])
        restored.check_integrity()


def test_a_new_file_is_of_this_schema(tmp_path: Path) -> None:
    TenantStore.create(
        tmp_path / "t.db", tenant_id="t", ladder=Ladder(), model_fingerprint="model-1", dimension=8
    ).close()
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("PRAGMA user_version").fetchone()[0] == 5
    assert connection.execute("SELECT count(*) FROM migration").fetchone()[0] == 1
    connection.close()
