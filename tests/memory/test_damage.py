"""Flipped bytes and torn ends anywhere in a tenant's files: the truth or a refusal, never a refused start."""

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from precall.engine.errors import ConfigurationError, StorageUnavailable, TenantNotFound, TenantQuarantined
from precall.engine.memory.decoded_memory import decode_said
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import Memory
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.registry import TenantRegistry
from precall.engine.memory.schema import PAGE_BYTES
from precall.engine.memory.store import TenantStore

RUNGS = (Rung(("acme",)), Rung(("acme", "dana")), Rung(("acme", "eve")))
FILES = ("acme.db", "acme.db-wal", "acme.db-shm", "acme.db-mark")
REFUSALS = (TenantQuarantined, StorageUnavailable, ConfigurationError)
ROUNDS = 120
LEAVES = (0x0A, 0x0D)
"""First bytes of b-tree leaves: of an index, of a table."""

Prepare = Callable[..., PreparedMemory]
Truth = Mapping[Rung, Mapping[str, Memory]]


@dataclass(frozen=True)
class Files:
    """A tenant's files at a moment in the middle of its work, and what stands in them."""

    contents: Mapping[str, bytes]
    truth: Truth
    version: int

    def put(self, folder: Path, name: str, content: bytes) -> None:
        """All of them as they were, but one."""
        folder.mkdir()
        for each, intact in self.contents.items():
            (folder / each).write_bytes(content if each == name else intact)


@pytest.fixture
def files(store: TenantStore, tmp_path: Path, prepare: Prepare) -> Files:
    """Half of it folded into the file, half of it in the log; superseded, deleted, and of several sizes."""

    def fill(first: int, last: int) -> None:
        for n in range(first, last):
            key = f"k{n % 3}" if n % 2 else ""
            store.write(
                [prepare(f"m{n}", RUNGS[n % 3], key=key, at=n, text=f"words {n} " * (1 + 30 * (n % 4)))]
            )

    fill(0, 20)
    store.delete(["m4", "m5"], visible_from=None)
    assert store.checkpoint()
    fill(20, 40)
    contents = {name: (tmp_path / name).read_bytes() for name in FILES}
    assert all(contents.values())
    truth = {
        rung: {memory.id: memory for memory in store.list_rung(rung, limit=99, include_history=True).memories}
        for rung in RUNGS
    }
    return Files(contents, truth, store.version)


def damaged(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    if chance.random() < 0.3:
        return content[:place]
    flipped = content[place] ^ (1 << chance.randrange(8))
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def read_all(folder: Path) -> tuple[int, Truth]:
    """Everything that the server would serve, by the way that it loads it; raises what it would answer."""
    with TenantRegistry(folder) as registry:
        assert registry.list() == ("acme",)
        store = registry.open("acme")
        current = {rung: dict(served(store, rung)) for rung in RUNGS}
        return store.version, current


def served(store: TenantStore, rung: Rung) -> Iterator[tuple[str, Memory]]:
    for block in store.load_blocks(rung):
        for identity, content in zip(block.ids, block.contents, strict=True):
            yield identity, decode_said(content)


def is_refused(folder: Path, files: Files, what: object) -> bool:
    """Whether the server refuses the tenant; if it does not, it must tell the truth."""
    try:
        version, current = read_all(folder)
    except REFUSALS:
        return True
    expected = {
        rung: {identity: memory for identity, memory in memories.items() if not memory.superseded_version}
        for rung, memories in files.truth.items()
    }
    assert (version, current) == (files.version, expected), what
    return False


def test_damage_anywhere_is_noticed_or_does_not_matter(files: Files, tmp_path: Path) -> None:
    chance = random.Random(20261130)
    refused = 0
    for number in range(ROUNDS):
        name = FILES[number % 4]
        folder = tmp_path / f"round{number}"
        files.put(folder, name, damaged(files.contents[name], chance))
        # A start, and another tenant, are not its concern.
        with TenantRegistry(folder) as registry, pytest.raises(TenantNotFound):
            registry.open("other")
        refused += is_refused(folder, files, (number, name))
        shutil.rmtree(folder)
    assert refused > ROUNDS / 4, "damage was put in, and must have been seen"


def test_a_page_that_has_lost_a_row_is_noticed(store: TenantStore, files: Files, tmp_path: Path) -> None:
    """The worst that a flipped bit can do: SQLite reads such a page without a complaint."""
    assert store.checkpoint()
    content = (tmp_path / "acme.db").read_bytes()
    folded = replace(files, contents={"acme.db": content})
    refused = 0
    leaves = [start for start in range(0, len(content), PAGE_BYTES) if content[start] in LEAVES and start]
    for start in leaves:
        for last in (False, True):
            folder = tmp_path / f"page{start}-{last}"
            folded.put(folder, "acme.db", without_a_row(content, start, last=last))
            refused += is_refused(folder, folded, (start, last))
            shutil.rmtree(folder)
    assert refused > len(leaves) / 2


def without_a_row(content: bytes, start: int, *, last: bool) -> bytes:
    """The file with a leaf whose first or last cell is not pointed at any more."""
    rows = int.from_bytes(content[start + 3 : start + 5])
    if not 0 < rows < PAGE_BYTES / 4:  # what looks like a leaf and is the end of a long row
        return content
    pointers = content[start + 8 : start + 8 + 2 * rows]
    kept = pointers[:-2] if last else pointers[2:]
    head = content[: start + 3] + (rows - 1).to_bytes(2) + content[start + 5 : start + 8]
    return head + kept + b"\x00\x00" + content[start + 8 + 2 * rows :]
