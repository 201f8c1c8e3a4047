"""On a full disk destructions still have room, and it is taken back when they are done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from precall.engine.errors import StorageUnavailable
from precall.engine.memory.destruction import Destruction
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.reserve import RESERVE_BYTES, RESERVE_NAME, Reserve

DANA = Rung(("acme", "dana"))


def test_the_room_is_taken_given_up_and_taken_again(tmp_path: Path) -> None:
    reserve, path = Reserve(tmp_path), tmp_path / RESERVE_NAME
    assert reserve.held and path.stat().st_blocks * 512 >= RESERVE_BYTES
    reserve.release()
    assert not reserve.held and not path.exists()
    reserve.fill()
    reserve.fill()
    assert reserve.held and path.stat().st_size == RESERVE_BYTES
    assert Reserve(tmp_path).held, "one that a killed process left is taken over"


def test_a_disk_without_room_has_no_reserve_and_no_part_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    assert not Reserve(tmp_path).held
    assert list(tmp_path.iterdir()) == []


def test_a_destruction_that_the_disk_refuses_gets_the_reserve(
    tmp_path: Path, prepare: Callable[..., PreparedMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reserve's own file stands in for what fills the disk."""
    path = tmp_path / RESERVE_NAME
    with TenantRegistry(tmp_path) as registry:
        store = registry.create("t", ladder=Ladder(), model_fingerprint="f", dimension=8)
        store.write([prepare("m1"), prepare("m2")])
        destroy_once = Destruction._destroy_once

        def full(self: Destruction, *arguments: Any) -> Any:
            if path.exists():
                raise StorageUnavailable("the disk is full")
            return destroy_once(self, *arguments)

        monkeypatch.setattr(Destruction, "_destroy_once", full)
        assert [deleted.id for deleted in store.delete(["m1"], visible_from=None).deleted] == ["m1"]
        assert path.exists(), "taken back for the next one"
        assert len(store.forget_scope(DANA).deleted) == 1
    assert not path.exists(), "a server that is not running keeps no room"
