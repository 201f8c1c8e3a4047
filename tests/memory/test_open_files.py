"""Files of tenants that nobody uses are closed, and open again by themselves."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from precall.engine.errors import StorageUnavailable, TenantNotFound
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.open_files import DESCRIPTORS_A_FILE, OpenFiles
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.resting_database import RestingDatabase
from precall.engine.memory.store import TenantStore

Prepare = Callable[..., PreparedMemory]
LIMIT = 3


class File:
    """Knows whether it is open, and may be in use."""

    def __init__(self) -> None:
        self.open = True
        self.in_use = False

    def rest(self) -> bool:
        if not self.in_use:
            self.open = False
        return not self.open


def descriptors(folder: Path) -> int:
    """Open descriptors of this process on files in a folder."""
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            count += str(each.readlink()).startswith(str(folder))
        except FileNotFoundError:  # the one that lists the folder
            continue
    return count


def make_stores(registry: TenantRegistry, count: int) -> list[TenantStore]:
    return [
        registry.create(f"t{n}", ladder=Ladder(), model_fingerprint="f", dimension=8) for n in range(count)
    ]


def test_the_least_recently_used_are_closed() -> None:
    files, some = OpenFiles(LIMIT), [File() for _ in range(4)]
    for file in some[:3]:
        files.used(file)
    files.used(some[0])
    files.used(some[3])
    assert [file.open for file in some] == [True, False, True, True]
    assert len(files) == LIMIT and some[1] not in files and some[0] in files


def test_a_file_in_use_stays_open_and_counts() -> None:
    files, some = OpenFiles(1), [File() for _ in range(3)]
    some[0].in_use = True
    for file in some[:2]:
        files.used(file)
    assert some[0].open and len(files) == 2, "both are in use, or were just now"
    some[0].in_use = False
    files.used(some[2])
    assert [file.open for file in some] == [False, False, True] and len(files) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted by Linux' /proc")
def test_descriptors_are_bounded_however_many_tenants_were_used(tmp_path: Path, prepare: Prepare) -> None:
    with TenantRegistry(tmp_path / "tenants", open_files=LIMIT) as registry:
        stores = make_stores(registry, 12)
        for turn in range(3):
            for number, store in enumerate(stores):
                store.write([prepare(f"m{turn}-{number}")])
                assert sum(count.current for count in store.counts()) == turn + 1
                assert registry.open_files <= LIMIT
                assert descriptors(tmp_path) <= LIMIT * DESCRIPTORS_A_FILE + 2  # lock and reserve
        assert [registry.is_open(f"t{n}") for n in range(12)] == [False] * 9 + [True] * 3


def test_a_store_whose_file_was_closed_works_as_before(tmp_path: Path, prepare: Prepare) -> None:
    with TenantRegistry(tmp_path / "tenants", open_files=1) as registry:
        first, second = make_stores(registry, 2)
        first.write([prepare("kept")])
        for _ in range(2):
            second.write([prepare(os.urandom(4).hex())])
            assert not registry.is_open("t0")
            assert first.version == 1 and not first.closed
            assert not registry.is_open("t1")
        assert registry.open("t0") is first
        first.close()
        with pytest.raises(StorageUnavailable, match="closed"):
            first.counts()
        assert registry.open("t0").version == 1


def test_a_read_in_progress_keeps_its_file(tmp_path: Path, prepare: Prepare) -> None:
    with TenantRegistry(tmp_path / "tenants", open_files=1) as registry:
        first, second = make_stores(registry, 2)
        first.write([prepare(f"m{n}") for n in range(400)])
        rung = first.rungs()[0]
        rows = first.load_rung(rung)
        next(rows)
        second.write([prepare("other")])
        assert registry.is_open("t0")
        assert len(list(rows)) == 399
        second.write([prepare("another")])
        assert not registry.is_open("t0")


def test_a_write_in_progress_keeps_its_file_and_is_kept(tmp_path: Path) -> None:
    with TenantRegistry(tmp_path / "tenants") as registry:
        make_stores(registry, 1)[0].close()
        database = RestingDatabase(registry.folder / "t0.db", OpenFiles(1))
        begun, go_on = threading.Event(), threading.Event()

        def write() -> None:
            with database.writing() as connection:
                connection.execute("UPDATE meta SET version = 7")
                begun.set()
                assert go_on.wait(10)

        writer = threading.Thread(target=write)
        writer.start()
        assert begun.wait(10)
        assert not database.rest()
        go_on.set()
        writer.join()
        assert database.rest()
        with database.reading() as connection:
            assert connection.execute("SELECT version FROM meta").fetchone() == (7,)
        database.close()


def test_a_file_that_is_gone_meanwhile_is_told_of(tmp_path: Path) -> None:
    with TenantRegistry(tmp_path / "tenants", open_files=1) as registry:
        first, second = make_stores(registry, 2)
        assert second.version == 0 and not registry.is_open("t0")
        (registry.folder / "t0.db").unlink()
        with pytest.raises(TenantNotFound):
            first.counts()
