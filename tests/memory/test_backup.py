"""A backup holds one state of a tenant; it comes back whole, elsewhere, under another name, or not at all."""

import hashlib
import random
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from precall.engine.errors import (
    AlreadyExists,
    ConfigurationError,
    InvalidInput,
    StorageUnavailable,
    TenantNotFound,
    TenantQuarantined,
)
from precall.engine.memory.backup import CHECKSUM_SUFFIX, Backup, check_backup
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import Source
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.store import TenantStore

ACME, DANA = Rung(("acme",)), Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "backups"
    made.mkdir()
    return made


def everything(store: TenantStore) -> list[object]:
    memories = [store.list_rung(rung, limit=9_999, include_history=True).memories for rung in store.rungs()]
    vectors = [(item.memory.id, item.vector.tobytes(), item.impacts) for item in store.load_rung(DANA)]
    return [store.version, store.ladder, store.model_fingerprint, memories, vectors]


def test_it_comes_back_whole_in_another_folder_under_another_name(
    store: TenantStore, tmp_path: Path, folder: Path, prepare: Prepare
) -> None:
    store.write([prepare("old", key="k", at=1), prepare("origin", ACME)], request_id="r")
    store.write([prepare("new", key="k", at=2, source=Source(memory_ids=("origin",)))])
    backup = store.back_up(folder)
    content = backup.path.read_bytes()
    assert (backup.version, backup.size_bytes) == (2, len(content))
    assert backup.sha256 == hashlib.sha256(content).hexdigest()
    noted = backup.path.with_name(backup.path.name + CHECKSUM_SUFFIX).read_text()
    assert noted == f"{backup.sha256}  {backup.path.name}\n"
    assert {path.name for path in folder.iterdir()} == {backup.path.name, backup.path.name + CHECKSUM_SUFFIX}
    assert backup.path.stat().st_mode & 0o077 == 0, "memories are in clear in it"
    with TenantRegistry(tmp_path / "elsewhere") as registry:
        registry.restore(backup.path, "globex", fingerprint="model-1")
        restored = registry.open("globex")
        assert restored.tenant_id == "globex"
        assert everything(restored) == everything(store)
        restored.check_integrity()
        assert restored.write(
            [prepare("old", key="k", at=1), prepare("origin", ACME)], request_id="r"
        ).replayed
        restored.delete(["origin"], visible_from=None)
        assert restored.rungs() == ()
    assert backup.path.read_bytes() == content, "a restored backup can be restored again"


def test_it_is_of_one_moment_while_others_write(store: TenantStore, folder: Path, prepare: Prepare) -> None:
    store.write([prepare(f"before{n}", text="long " * 300) for n in range(200)])
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            store.write(
                [prepare(f"a{number}", key="a", at=number), prepare(f"b{number}", key="b", at=number)]
            )
            store.delete([f"before{number % 200}"], visible_from=None)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        backups = [store.back_up(folder) for _ in range(3)]
    finally:
        stop.set()
        writer.join()
    for backup in backups:
        check_backup(backup.path)
        copy = TenantStore.open(backup.path)
        assert copy.version == backup.version
        ids = [memory.id for memory in copy.list_rung(DANA, limit=9_999, include_history=True).memories]
        written = {int(name[1:]) for name in ids if name[0] == "a"}
        assert written == {int(name[1:]) for name in ids if name[0] == "b" and name[1].isdigit()}
        copy.close()
    store.check_integrity()


def test_nothing_that_was_deleted_is_in_it(store: TenantStore, folder: Path, prepare: Prepare) -> None:
    store.write([prepare(f"m{n}", text=f"a password {n} " * 99) for n in range(50)])
    stream = store.load_rung(DANA)
    next(stream)  # a reader that keeps the log, with the words in it, from being folded away
    store.delete([f"m{n}" for n in range(50)], visible_from=None)
    assert store.erasure_is_pending
    assert b"password" not in store.back_up(folder).path.read_bytes()
    stream.close()  # type: ignore[attr-defined]


def damaged_copies(backup: Backup, count: int) -> list[bytes]:
    chance = random.Random(11)
    content = backup.path.read_bytes()
    copies = [content[: len(content) // 2], b"", b"\x00" * len(content)]
    for _ in range(count):
        place = chance.randrange(len(content))
        copies.append(
            content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
        )
    return copies


def test_a_damaged_one_is_refused_and_leaves_nothing(
    store: TenantStore, tmp_path: Path, folder: Path, prepare: Prepare
) -> None:
    store.write([prepare(f"m{n}") for n in range(20)])
    backup = store.back_up(folder)
    with TenantRegistry(tmp_path / "elsewhere") as registry:
        for content in damaged_copies(backup, 20):
            backup.path.write_bytes(content)
            with pytest.raises(InvalidInput, match="SHA-256"):
                registry.restore(backup.path, "acme")
            # Whoever insists on the damaged bytes is refused for what stands in them, or gets the truth.
            claimed = hashlib.sha256(content).hexdigest()
            try:
                registry.restore(backup.path, "acme", sha256=claimed)
            except (TenantQuarantined, ConfigurationError):
                assert registry.list() == ()
                assert not [path for path in registry.folder.iterdir() if "acme" in path.name]
            else:
                memories = registry.open("acme").list_rung(DANA, limit=99).memories
                assert [memory.text for memory in memories] == [f"what m{n} says" for n in range(20)]
                registry.delete("acme")


def test_what_cannot_be_restored_is_told_apart(
    store: TenantStore, tmp_path: Path, folder: Path, prepare: Prepare
) -> None:
    store.write([prepare("m")])
    backup = store.back_up(folder)
    with TenantRegistry(tmp_path / "elsewhere") as registry:
        with pytest.raises(InvalidInput, match="model-1, not by model-2"):
            registry.restore(backup.path, "acme", fingerprint="model-2")
        with pytest.raises(InvalidInput, match="no tenant id"):
            registry.restore(backup.path, "Acme")
        with pytest.raises(TenantNotFound, match=r"no backup .*nowhere"):
            registry.restore(folder / "nowhere", "acme", sha256="0")
        registry.restore(backup.path, "acme", sha256=backup.sha256.upper())
        with pytest.raises(AlreadyExists, match="another name"):
            registry.restore(backup.path, "acme")
        assert len(registry.open("acme").list_rung(DANA, limit=9).memories) == 1
        backup.path.with_name(backup.path.name + CHECKSUM_SUFFIX).unlink()
        with pytest.raises(InvalidInput, match="say which SHA-256"):
            registry.restore(backup.path, "other")
        other = sqlite3.connect(backup.path)
        other.execute("PRAGMA user_version = 99")
        other.close()
        content = backup.path.read_bytes()
        with pytest.raises(ConfigurationError, match="schema version 99"):
            registry.restore(backup.path, "other", sha256=hashlib.sha256(content).hexdigest())
        assert registry.list() == ("acme",)


@pytest.mark.parametrize("name", ["relative", "missing"])
def test_a_folder_that_is_none_is_refused(store: TenantStore, folder: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="no folder on the server's machine"):
        store.back_up(Path("backups") if name == "relative" else folder / name)
    assert list(folder.iterdir()) == []


def test_a_disk_that_refuses_leaves_nothing(
    store: TenantStore, folder: Path, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([prepare("m")])

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("precall.engine.memory.backup._synchronize", refuse)
    with pytest.raises(StorageUnavailable, match="No space left"):
        store.back_up(folder)
    assert not [path for path in folder.iterdir() if path.suffix != CHECKSUM_SUFFIX]


def test_a_damaged_tenant_makes_no_backup(
    store: TenantStore, tmp_path: Path, folder: Path, prepare: Prepare
) -> None:
    store.write([prepare("old", key="k", at=-1), prepare("m", key="k")])
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute("UPDATE memories SET event_time = 9e17 WHERE id = 'old'")
    connection.commit()
    connection.close()
    with pytest.raises(TenantQuarantined, match="newest"):
        store.back_up(folder)
    assert list(folder.iterdir()) == []
