"""The folder of tenants: names, ownership, and what a crash or a damaged tenant must not break."""

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.store import TenantStore

DANA = Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[TenantRegistry]:
    with TenantRegistry(tmp_path / "data" / "tenants") as made:
        yield made


def create(registry: TenantRegistry, tenant_id: str) -> TenantStore:
    return registry.create(tenant_id, ladder=Ladder(), model_fingerprint="f", dimension=8)


def test_tenants_are_made_listed_opened_and_deleted(registry: TenantRegistry, prepare: Prepare) -> None:
    zeta, acme = create(registry, "zeta"), create(registry, "acme")
    assert registry.list() == ("acme", "zeta")
    assert registry.open("acme") is acme
    acme.write([prepare("m")])
    acme.close()
    reopened = registry.open("acme")
    assert reopened is not acme
    assert (reopened.version, zeta.version, zeta.rungs()) == (1, 0, ())
    with pytest.raises(AlreadyExists):
        create(registry, "acme")
    registry.delete("acme")
    assert (registry.exists("acme"), registry.list()) == (False, ("zeta",))
    assert not list(registry.folder.glob("acme*"))
    with pytest.raises(StorageUnavailable, match="closed"):
        reopened.rungs()
    for call in (registry.open, registry.delete):
        with pytest.raises(TenantNotFound):
            call("acme")
    assert create(registry, "acme").version == 0


@pytest.mark.parametrize(
    "tenant_id", ["", "Acme", "-a", "_a", "a.b", "a/b", "..", "a\n", "a" * 64, "é", "a b"]
)
def test_what_is_no_tenant_id_is_refused_everywhere(registry: TenantRegistry, tenant_id: str) -> None:
    calls: list[Callable[[str], object]] = [
        registry.open,
        registry.delete,
        registry.exists,
        functools.partial(create, registry),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="tenant id"):
            call(tenant_id)


def test_the_longest_and_the_oddest_id_work(registry: TenantRegistry) -> None:
    for tenant_id in ("a" * 63, "0-_", "7"):
        assert create(registry, tenant_id).tenant_id == tenant_id
    assert registry.list() == ("0-_", "7", "a" * 63)


def test_a_folder_has_one_owner(registry: TenantRegistry) -> None:
    with pytest.raises(ConfigurationError, match="tenants"):
        TenantRegistry(registry.folder)
    script = (
        "import sys; from pathlib import Path; from precall.engine.memory.registry import TenantRegistry\n"
        "TenantRegistry(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-P", "-c", script, str(registry.folder)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ConfigurationError" in refused.stderr
    registry.close()
    registry.close()
    assert subprocess.run(command, check=False).returncode == 0
    with pytest.raises(StorageUnavailable):
        registry.open("acme")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="file/data"):
        TenantRegistry(tmp_path / "file" / "data")


def test_a_damaged_tenant_harms_nobody_else_and_can_be_removed(registry: TenantRegistry) -> None:
    create(registry, "good")
    folder = registry.folder
    registry.close()
    (folder / "bad.db").write_bytes(b"not a database" * 1000)
    with TenantRegistry(folder) as again:
        assert again.list() == ("bad", "good")
        with pytest.raises(TenantQuarantined, match="bad"):
            again.open("bad")
        assert again.open("good").version == 0
        again.delete("bad")
        assert again.list() == ("good",)


def test_a_file_under_another_tenants_name_is_refused(registry: TenantRegistry) -> None:
    create(registry, "acme").close()
    (registry.folder / "acme.db").rename(registry.folder / "evil.db")
    with pytest.raises(ConfigurationError, match="acme"):
        registry.open("evil")


def test_what_a_crash_left_is_swept_at_the_next_start(registry: TenantRegistry, prepare: Prepare) -> None:
    store = create(registry, "acme")
    store.write([prepare("m")])
    folder = registry.folder
    for name in ("acme.db", "acme.db-wal"):  # a server killed with its log not folded in
        (folder / f"copy-{name}").write_bytes((folder / name).read_bytes())
    registry.close()
    (folder / "acme.db").unlink()
    for name in ("acme.db", "acme.db-wal"):
        (folder / f"copy-{name}").rename(folder / name)
    left = ("x.db.making", "x.db.making-journal", "y.db.removed", "y.db-wal", "y.db-shm", "z.db-wal")
    for name in left:
        (folder / name).write_bytes(b"left over")
    with TenantRegistry(folder) as again:
        assert not [name for name in left if (folder / name).exists()]
        assert again.list() == ("acme",)
        assert again.open("acme").version == 1


def test_nobody_else_may_read_what_is_stored(registry: TenantRegistry, prepare: Prepare) -> None:
    store = create(registry, "acme")
    store.write([prepare("the secret is plum", rung=DANA)], request_id=None)
    folders = [registry.folder, registry.folder.parent]
    assert [oct(folder.stat().st_mode & 0o777) for folder in folders] == ["0o700", "0o700"]
    files = [path for path in registry.folder.iterdir() if path.name.startswith("acme")]
    assert len(files) == 4 and {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}
