"""Deleted words are gone from the bytes on disk, not only from the answers."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import Source
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.store import TenantStore

DANA = Rung(("acme", "dana"))
Prepare = Callable[..., PreparedMemory]


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))


def spoken(prepare: Prepare, identity: str, word: str, length: int) -> PreparedMemory:
    """A memory that says a word wherever a writer may put words."""
    return prepare(
        identity,
        text=f"{word} {'.' * length}",
        key=f"key-{word}",
        source=Source(f"conversation-{word}", f"turn-{word}", f"uri://{word}"),
        questions=(f"Is it {word}?",),
        metadata={f"name-{word}": word},
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_word_of_a_deleted_memory_is_left(
    store: TenantStore, tmp_path: Path, prepare: Prepare, seed: int
) -> None:
    """SQLite's secure_delete alone fails this now and then: see `precall.engine.memory.schema`."""
    draw = random.Random(seed)
    alive: dict[str, str] = {}
    deleted: list[str] = []
    for serial in range(120):
        if draw.random() < 0.5 or len(alive) < 20:
            words = {f"{draw.getrandbits(64):016x}": f"zq{seed}x{serial}x{number}qz" for number in range(12)}
            batch = [spoken(prepare, name, word, draw.choice((0, 40, 700))) for name, word in words.items()]
            store.write(batch, request_id=f"w{serial}")
            alive |= words
        else:
            doomed = draw.sample(sorted(alive), 9)
            later = prepare(f"later-{serial}", key=f"key-{alive[doomed[0]]}", at=1)
            store.write([later])
            ids = [later.memory.id, *doomed[1:]]
            assert len(store.delete(ids, visible_from=DANA, request_id=f"d{serial}").deleted) == 10
            deleted += [alive.pop(identity) for identity in doomed]
    assert not store.erasure_is_pending
    content = bytes_on_disk(tmp_path / "acme.db")
    assert [word for word in deleted if word.encode() in content] == []
    assert all(word.encode() in content for word in alive.values())


def test_a_log_in_use_is_erased_as_soon_as_it_is_free(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    store.write([spoken(prepare, "m", "secretword", 0), prepare("other")])
    stream = store.load_rung(DANA)
    next(stream)
    store.delete(["m"], visible_from=DANA)
    assert store.erasure_is_pending
    assert not store.checkpoint()
    stream.close()  # type: ignore[attr-defined]
    assert store.checkpoint()
    assert not store.erasure_is_pending
    assert b"secretword" not in bytes_on_disk(tmp_path / "acme.db")


def test_opening_erases_what_a_crash_left_in_the_log(
    store: TenantStore, tmp_path: Path, prepare: Prepare
) -> None:
    store.write([spoken(prepare, "m", "secretword", 0)])
    stream = store.load_rung(DANA)
    next(stream)
    store.delete(["m"], visible_from=DANA)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for suffix in ("", "-wal"):  # as a crash would leave them: the log is not folded in
        content = (tmp_path / f"acme.db{suffix}").read_bytes()
        (crashed / f"acme.db{suffix}").write_bytes(content)
    assert b"secretword" in bytes_on_disk(crashed / "acme.db")
    reopened = TenantStore.open(crashed / "acme.db")
    assert (reopened.version, reopened.rungs()) == (2, ())
    assert b"secretword" not in bytes_on_disk(crashed / "acme.db")
    reopened.close()
    stream.close()  # type: ignore[attr-defined]


def test_a_short_vector_gets_ballast_so_that_words_stay_out_of_the_tree(
    store: TenantStore, prepare: Prepare
) -> None:
    store.write([spoken(prepare, "m", "secretword", 0)])
    with store._database.reading() as connection:
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        local = connection.execute("SELECT length(vector) + length(ballast) FROM memories").fetchone()[0]
    assert local > page_bytes - 35  # the most of a row that SQLite keeps in a page of a table's tree
