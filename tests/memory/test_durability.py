"""What was acknowledged outlives `kill -9`; what a disk refuses leaves nothing; damage is named."""

import random
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from precall.engine.errors import ConfigurationError, StorageUnavailable, TenantNotFound, TenantQuarantined
from precall.engine.memory import creation, schema
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

DANA = Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]

WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
import numpy as np
from precall.engine.encoding.encoder import TokenUsage
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import NewMemory
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

store = TenantStore.open(Path(sys.argv[1]))
vector = np.ones(8, np.float16)
while True:
    version = store.version + 1
    moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=version)
    batch = [
        PreparedMemory(
            NewMemory(id=f"{version}-{n}", rung=Rung(("acme", "dana")), text="word " * 200 * n + "end",
                      key="last" if n == 0 else "", event_time=moment, said_time=moment),
            vector, ["word"], TokenUsage(1, 1))
        for n in range(3)
    ]
    print(store.write(batch, request_id=f"request-{version}").version, flush=True)
    if version % 5 == 0:
        print(store.delete([f"{version - 3}-2"], visible_from=None).version, flush=True)
"""


def versions_acknowledged_before_kill(path: Path, wait_for: int) -> list[int]:
    """Run the writer, kill it while it is at work behind its n-th acknowledgement, say what it printed."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(wait_for)]
        process.kill()
        lines += process.stdout.readlines()
    return [int(line) for line in lines if line.endswith("\n")]


def test_kill_9_loses_nothing_acknowledged(store: TenantStore, tmp_path: Path) -> None:
    path = tmp_path / "acme.db"
    store.close()
    moments = random.Random(20240501)
    for _ in range(5):
        acknowledged = versions_acknowledged_before_kill(path, moments.randint(1, 60))
        reopened = TenantStore.open(path)
        reopened.check_integrity()
        assert acknowledged[-1] <= reopened.version <= acknowledged[-1] + 1
        page = reopened.list_rung(DANA, limit=100_000, include_history=True)
        stored = {memory.id for memory in page.memories}
        versions = {*acknowledged, reopened.version}  # the last one may be durable and not yet acknowledged
        writes = [version for version in versions if f"{version}-0" in stored]
        deletes = [version for version in versions if f"{version}-0" not in stored]
        assert all((version - 1) % 5 == 0 and f"{version - 4}-2" not in stored for version in deletes)
        deleted = {f"{version - 4}-2" for version in deletes}
        assert {f"{version}-{n}" for version in writes for n in range(3)} - deleted <= stored
        assert len(reopened.history(DANA, "last").memories) == len({i for i in stored if i.endswith("-0")})
        reopened.close()


def test_a_commit_waits_for_the_disk_itself(store: TenantStore) -> None:
    """No test here can cut the power; SQLite promises to survive it under these settings."""
    with store._database.writing() as connection:
        settings = ("synchronous", "journal_mode", "foreign_keys", "secure_delete")
        values = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
    assert values == [2, "wal", 1, 1]


def test_many_threads_write_and_read_at_once(store: TenantStore, prepare: Prepare) -> None:
    def write_and_read(worker: int) -> list[int]:
        versions = []
        for number in range(10):
            batch = [prepare(f"{worker}-{number}-{part}", key=f"k{part}") for part in range(3)]
            versions.append(store.write(batch).version)
            assert len({item.memory.created_version for item in store.load_rung(DANA)}) == 1
        return versions

    with ThreadPoolExecutor(6) as pool:
        versions = [version for made in pool.map(write_and_read, range(6)) for version in made]
    assert sorted(versions) == list(range(1, 61))
    assert len(store.history(DANA, "k0").memories) == 60
    store.check_integrity()


@contextmanager
def refusing(store: TenantStore, pragma: str, afterwards: str) -> Iterator[None]:
    """The limits of a connection stand in for a disk that is full or read-only."""
    store._database._writer.execute(f"PRAGMA {pragma}")
    try:
        yield
    finally:
        store._database._writer.execute(f"PRAGMA {afterwards}")


@pytest.mark.parametrize(
    ("pragma", "afterwards"),
    [("max_page_count = 1", "max_page_count = 4294967294"), ("query_only = ON", "query_only = OFF")],
)
def test_a_disk_that_refuses_keeps_nothing_and_loses_nothing(
    store: TenantStore, prepare: Prepare, pragma: str, afterwards: str
) -> None:
    store.write([prepare("before", key="k")], request_id="first")
    batch = [prepare(f"m{number}", key="k", text="long " * 2_000, at=number) for number in range(20)]
    with refusing(store, pragma, afterwards):
        with pytest.raises(StorageUnavailable, match="nothing of it was kept"):
            store.write(batch, request_id="second")
        assert (store.version, [item.memory.id for item in store.load_rung(DANA)]) == (1, ["before"])
    store.check_integrity()
    assert not store.write(batch, request_id="second").replayed
    assert store.version == 2


def test_a_full_disk_leaves_no_half_made_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = ("CREATE TABLE meta (x)", "PRAGMA max_page_count = 1", *schema.STATEMENTS[1:])
    monkeypatch.setattr(creation, "STATEMENTS", statements)
    with pytest.raises(StorageUnavailable):
        TenantStore.create(
            tmp_path / "t.db", tenant_id="t", ladder=Ladder(), model_fingerprint="f", dimension=8
        )
    assert list(tmp_path.iterdir()) == []


def filled(store: TenantStore, path: Path, prepare: Prepare) -> bytes:
    store.write([prepare(f"m{number}", key=f"k{number}", text="long " * 99) for number in range(300)])
    store.close()
    return path.read_bytes()


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "another database", "no settings"])
def test_a_damaged_file_is_quarantined_when_opened(
    store: TenantStore, tmp_path: Path, prepare: Prepare, damage: str
) -> None:
    path = tmp_path / "acme.db"
    content = filled(store, path, prepare)
    if damage == "garbage":
        path.write_bytes(random.Random(1).randbytes(len(content)))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        if damage == "another database":
            path.unlink()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (x)" if damage == "another database" else "DELETE FROM meta")
        connection.commit()
        connection.close()
    before = path.read_bytes()
    with pytest.raises(TenantQuarantined, match="acme"):
        TenantStore.open(path)
    assert path.read_bytes() == before


def test_damage_in_the_middle_is_found_by_the_check_and_never_served_as_success(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    path = tmp_path / "acme.db"
    content = filled(store, path, prepare)
    middle = len(content) // 2 // 512 * 512
    path.write_bytes(content[:middle] + b"\xa5" * 4096 + content[middle + 4096 :])
    reopened = TenantStore.open(path)
    with pytest.raises(TenantQuarantined):
        reopened.check_integrity()
    with pytest.raises(TenantQuarantined):
        list(reopened.load_rung(DANA))
    reopened.close()


@pytest.mark.parametrize(
    "fault",
    [
        "UPDATE memories SET state = 1, superseded_version = 1 WHERE id = 'm1'",
        "UPDATE memories SET event_time = 9e17 WHERE id = 'old'",
        "UPDATE memories SET created_version = 99",
        "INSERT INTO rungs (path) VALUES ('[\"x\"]')",
        "DELETE FROM derivations",
        "UPDATE memories SET key = 'other' WHERE id = 'm1'",
        "UPDATE memories SET metadata = '{' WHERE id = 'm1'",
        "UPDATE memories SET vector = zeroblob(15) WHERE id = 'm1'",
        "UPDATE memories SET impact_weights = zeroblob(4) WHERE id = 'm1'",
    ],
)
def test_the_check_finds_each_kind_of_fault(
    store: TenantStore, tmp_path: Path, prepare: Prepare, fault: str
) -> None:
    origin = prepare("old", key="k", at=-1)
    derived = prepare("m1", key="k", source=type(origin.memory.source)(memory_ids=("old",)))
    store.write([origin, derived])
    store.check_integrity()
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(fault)
    connection.commit()
    connection.close()
    with pytest.raises(TenantQuarantined):
        store.check_integrity()


def test_another_schema_version_is_told_apart_from_damage(store: TenantStore, tmp_path: Path) -> None:
    store.close()
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigurationError, match="schema version 99"):
        TenantStore.open(tmp_path / "acme.db")


def test_a_log_left_by_an_earlier_tenant_is_not_replayed(tmp_path: Path, prepare: Prepare) -> None:
    path = tmp_path / "t.db"
    first = TenantStore.create(path, tenant_id="t", ladder=Ladder(), model_fingerprint="f", dimension=8)
    first.write([prepare("secret")])
    log = (tmp_path / "t.db-wal").read_bytes()
    assert b"secret" in log
    first.close()
    path.unlink()
    (tmp_path / "t.db-wal").write_bytes(log)
    second = TenantStore.create(path, tenant_id="t", ladder=Ladder(), model_fingerprint="f", dimension=8)
    assert (second.version, second.rungs()) == (0, ())
    second.close()
    path.unlink()
    with pytest.raises(TenantNotFound):
        TenantStore.open(path)


@pytest.mark.parametrize(
    "fault",
    [
        "UPDATE memories SET vector = zeroblob(16)",
        "UPDATE memories SET vector = CAST(X'0001' || substr(vector, 3) AS BLOB)",
        "UPDATE memories SET impact_terms = replace(impact_terms, 'dear', 'deer')",
        "UPDATE memories SET impact_weights = zeroblob(8)",
        "UPDATE memories SET text = replace(text, 'dear', 'deer')",
        "UPDATE memories SET importance = 0.25",
        "UPDATE memories SET tokens_used = 8",
        "UPDATE rungs SET path = replace(path, 'dana', 'eve2')",
    ],
)
def test_a_flip_that_leaves_valid_content_is_noticed_when_it_is_read(
    store: TenantStore, tmp_path: Path, prepare: Prepare, fault: str
) -> None:
    """SQLite has no checksums: what it reads well may still not be what was written."""
    store.write([prepare("m1", text="my dear", confidence=-0.0, importance=0.5)])
    assert [item.memory.text for item in store.load_rung(DANA)] == ["my dear"]
    connection = sqlite3.connect(tmp_path / "acme.db")
    connection.execute(fault)
    connection.commit()
    connection.close()
    rung = Rung(("acme", "eve2")) if "eve2" in fault else DANA
    with pytest.raises(TenantQuarantined, match=r"tenant 'acme' is damaged .*m1"):
        list(store.load_rung(rung))
    with pytest.raises(TenantQuarantined, match="'acme'"):
        store.check_integrity()


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file of this process can grow over it: a disk that has no room left."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_writes_have_filled_still_lets_deletes_free_it(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    store.write([prepare(f"m{number}", text="long " * 500) for number in range(40)])
    store.checkpoint()
    log = tmp_path / "acme.db-wal"
    with files_limited_to(120_000 + (tmp_path / "acme.db").stat().st_size):
        with pytest.raises(StorageUnavailable):
            store.write([prepare(f"n{number}", text="word " * 500) for number in range(200)])
        full = log.stat().st_size
        outcome = store.delete(["m1", "m2"], visible_from=None, request_id="r")
        assert [deleted.id for deleted in outcome.deleted] == ["m1", "m2"]
        assert log.stat().st_size < full
    store.check_integrity()
