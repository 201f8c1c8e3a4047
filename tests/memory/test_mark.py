"""The note that tells when a file has lost what was acked."""

from collections.abc import Callable
from pathlib import Path

import pytest

from precall.engine.errors import TenantQuarantined
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.mark import VersionMark
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.store import TenantStore

Prepare = Callable[..., PreparedMemory]


def test_every_change_is_noted_and_none_that_was_refused(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    mark = VersionMark(tmp_path / "acme.db")
    assert mark.read() == 0
    for change, version in (
        (lambda: store.write([prepare("a"), prepare("b")]), 1),
        (lambda: store.delete(["a"], visible_from=None), 2),
        (lambda: store.delete(["a"], visible_from=None), 2),
        (lambda: store.write([prepare("c")]), 3),
    ):
        change()
        assert mark.read() == store.version == version


def test_a_log_that_was_cut_is_told_from_a_crash(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    store.write([prepare("a")])
    store.checkpoint()
    content = (tmp_path / "acme.db").read_bytes()
    store.write([prepare("b")])
    store.close()
    (tmp_path / "acme.db").write_bytes(content)  # as if the log had been lost
    with pytest.raises(TenantQuarantined, match=r"holds version 1, and was at 2.*remove acme\.db-mark"):
        TenantStore.open(tmp_path / "acme.db")
    VersionMark(tmp_path / "acme.db").path.unlink()
    reopened = TenantStore.open(tmp_path / "acme.db")
    assert reopened.version == 1
    reopened.close()


@pytest.mark.parametrize("content", [b"", b"\x00" * 12, b"\xff" * 12, b"\x09" * 40])
def test_a_note_that_is_not_sound_says_nothing(
    store: TenantStore, tmp_path: Path, prepare: Prepare, content: bytes
) -> None:
    store.write([prepare("a")])
    store.close()
    mark = VersionMark(tmp_path / "acme.db")
    mark.path.write_bytes(content)
    reopened = TenantStore.open(tmp_path / "acme.db")
    reopened.write([prepare("b")])
    assert mark.read() == 2
    reopened.close()


def test_a_note_that_cannot_be_written_fails_nothing(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    (tmp_path / "acme.db-mark").mkdir()
    assert store.write([prepare("a")]).version == 1


def test_it_goes_with_its_tenant(tmp_path: Path, prepare: Prepare) -> None:
    with TenantRegistry(tmp_path) as registry:
        for _ in range(2):
            store = registry.create("t", ladder=Ladder(), model_fingerprint="f", dimension=8)
            assert store.version == 0
            store.write([prepare("a")])
            registry.delete("t")
        assert not list(tmp_path.glob("t.*"))
