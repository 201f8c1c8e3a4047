"""What can be read of a tenant's memories without searching."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from precall.engine.errors import InvalidInput
from precall.engine.memory.block import MemoryBlock
from precall.engine.memory.decoded_memory import decode_memory
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MAX_KEY_CHARACTERS, IndexedMemory, Memory
from precall.engine.memory.placement import VectorView
from precall.engine.memory.rows import MEMORY_COLUMNS, DamagedRow, decode_rung, digest, encode_rung
from precall.engine.memory.view import NOT_EXPIRED, View

_MEMORIES = "FROM memories m JOIN rungs r ON r.number = m.rung"
_STREAM_ROWS = 256
_BLOCK_ROWS = 256


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """``memories`` in the order asked, each once; what does not exist or may not be seen is missing."""

    memories: tuple[Memory, ...]
    missing_ids: tuple[str, ...]
    version: int


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """``next_token`` is empty on the last page."""

    memories: tuple[Memory, ...]
    next_token: str
    version: int


@dataclass(frozen=True, slots=True)
class History:
    """Every statement under one key of one rung, the newest event first, the later arrival first on ties."""

    memories: tuple[Memory, ...]
    version: int


@dataclass(frozen=True, slots=True)
class RungCount:
    """How many memories stand on a rung."""

    rung: Rung
    current: int
    superseded: int


def read_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT version FROM meta").fetchone()[0])


def find(
    connection: sqlite3.Connection, ids: Iterable[str], visible_from: Rung | None, view: View
) -> FoundMemories:
    """``visible_from`` None sees all rungs."""
    wanted = tuple(dict.fromkeys(ids))
    rows = connection.execute(
        f"SELECT {MEMORY_COLUMNS} {_MEMORIES} WHERE m.id IN (SELECT value FROM json_each(:ids)) "
        f"AND {NOT_EXPIRED}",
        {"ids": json.dumps(wanted), **view.parameters},
    )
    found = {memory.id: memory for memory in map(decode_memory, rows)}
    visible = {
        identity: memory
        for identity, memory in found.items()
        if visible_from is None or memory.rung.is_visible_from(visible_from)
    }
    return FoundMemories(
        memories=tuple(visible[identity] for identity in wanted if identity in visible),
        missing_ids=tuple(identity for identity in wanted if identity not in visible),
        version=read_version(connection),
    )


def page(
    connection: sqlite3.Connection,
    rung: Rung,
    view: View,
    *,
    limit: int,
    after_token: str,
    matching: Callable[[Memory], bool] | None,
) -> MemoryPage:
    """The next ``limit`` memories of one rung in order of arrival; ``matching`` never makes a page short.

    Raises InvalidInput for a limit below 1 or a token that no page gave.
    """
    if limit < 1:
        raise InvalidInput(f"a page has at least 1 memory, not {limit}")
    if after_token and not (after_token.isascii() and after_token.isdigit() and len(after_token) < 19):
        raise InvalidInput("this page token comes from no page: start without one")
    rows = connection.execute(
        f"SELECT {MEMORY_COLUMNS}, m.number {_MEMORIES} "
        f"WHERE r.path = :path AND m.number > :after AND {view.condition} ORDER BY m.number",
        {"path": encode_rung(rung), "after": int(after_token or 0), **view.parameters},
    )
    memories: list[Memory] = []
    last = ""
    next_token = ""
    for row in rows:
        memory = view.of(decode_memory(row[:-1]))
        if matching is not None and not matching(memory):
            continue
        if len(memories) == limit:
            next_token = last
            break
        memories.append(memory)
        last = str(row[-1])
    return MemoryPage(tuple(memories), next_token, read_version(connection))


def read_history(connection: sqlite3.Connection, rung: Rung, key: str, view: View) -> History:
    """Empty when nothing was said under the key. Raises InvalidInput for an empty or too long key."""
    if not key:
        raise InvalidInput("the key is empty: history is kept by key")
    if len(key) > MAX_KEY_CHARACTERS:
        raise InvalidInput(f"the key has {len(key)} characters, at most {MAX_KEY_CHARACTERS}")
    rows = connection.execute(
        f"SELECT {MEMORY_COLUMNS} {_MEMORIES} WHERE r.path = :path AND m.key_digest = :key "
        f"AND {view.condition} ORDER BY m.event_time DESC, m.number DESC",
        {"path": encode_rung(rung), "key": digest(key), **view.parameters},
    )
    return History(tuple(map(decode_memory, rows)), read_version(connection))


def stream_current(
    connection: sqlite3.Connection, rung: Rung, vectors: VectorView
) -> Iterator[IndexedMemory]:
    """The current memories of one rung in order of arrival, a few hundred rows in memory at a time.

    Raises DamagedRow for a row that is not what was written, and when some have been lost.
    """
    cursor = _select_current(connection, rung, vectors)
    while rows := cursor.fetchmany(_STREAM_ROWS):
        yield from vectors.decode(rows)


def stream_blocks(connection: sqlite3.Connection, rung: Rung, vectors: VectorView) -> Iterator[MemoryBlock]:
    """What `stream_current` gives and raises, many rows in a block."""
    following = _count_current(connection, rung)
    cursor = _select_current(connection, rung, vectors)
    while rows := cursor.fetchmany(_BLOCK_ROWS):
        following -= len(rows)
        if found := vectors.indexed_rows(rows):
            yield MemoryBlock.of_rows(
                found, depth=rung.depth, dimension=vectors.model.dimension, following=following
            )


def _select_current(connection: sqlite3.Connection, rung: Rung, vectors: VectorView) -> sqlite3.Cursor:
    _check_indices(connection, rung)
    return connection.execute(
        f"SELECT {vectors.columns} {vectors.tables} WHERE r.path = ? AND m.state = 0 ORDER BY m.number",
        (encode_rung(rung),),
    )


def _count_current(connection: sqlite3.Connection, rung: Rung) -> int:
    found = connection.execute(
        f"SELECT count(*) {_MEMORIES} WHERE r.path = ? AND m.state = 0", (encode_rung(rung),)
    )
    return int(found.fetchone()[0])


def check_rungs(connection: sqlite3.Connection) -> None:
    """Raises DamagedRow when a rung has been lost: all that stands on it would seem never to have been."""
    rows, indexed = connection.execute(
        "SELECT (SELECT count(*) FROM rungs NOT INDEXED), "
        "(SELECT count(*) FROM rungs INDEXED BY sqlite_autoindex_rungs_1 WHERE path > '')"
    ).fetchone()
    if rows != indexed:
        raise DamagedRow(f"there are {rows} rungs, the index knows {indexed}")


def _check_indices(connection: sqlite3.Connection, rung: Rung) -> None:
    """Raises DamagedRow when two indices disagree on how many memories a rung holds: a damaged page may have
    lost some and read well. A row that the table itself has lost is missed by SQLite.
    """
    by_rung, by_state = connection.execute(
        "SELECT (SELECT count(*) FROM memories INDEXED BY memories_by_rung WHERE rung = r.number), "
        "(SELECT count(*) FROM memories INDEXED BY memories_by_state WHERE rung = r.number) "
        "FROM rungs r WHERE r.path = ? UNION ALL SELECT 0, 0",
        (encode_rung(rung),),
    ).fetchone()
    if by_rung != by_state:
        raise DamagedRow(f"a rung holds {by_rung} memories by one index, {by_state} by another")


def stream_as_of(
    connection: sqlite3.Connection, rung: Rung, view: View, vectors: VectorView
) -> Iterator[IndexedMemory]:
    """What ``view`` shows of one rung in order of arrival, a few hundred rows in memory at a time."""
    cursor = connection.execute(
        f"SELECT {vectors.columns} {vectors.tables} "
        f"WHERE r.path = :path AND {view.condition} ORDER BY m.number",
        {"path": encode_rung(rung), **view.parameters},
    )
    while rows := cursor.fetchmany(_STREAM_ROWS):
        for indexed in vectors.decode(rows):
            yield replace(indexed, memory=view.of(indexed.memory))


def stream_all(connection: sqlite3.Connection, vectors: VectorView) -> Iterator[IndexedMemory]:
    """Every memory in order of arrival, history included, a few hundred rows in memory at a time."""
    cursor = connection.execute(f"SELECT {vectors.columns} {vectors.tables} ORDER BY m.number")
    while rows := cursor.fetchmany(_STREAM_ROWS):
        yield from vectors.decode(rows)


def count_by_rung(connection: sqlite3.Connection) -> tuple[RungCount, ...]:
    """The rungs that hold memories, ordered by their values."""
    rows = connection.execute(
        "SELECT r.path, sum(m.state = 0), sum(m.state = 1) "
        "FROM memories m JOIN rungs r ON r.number = m.rung GROUP BY m.rung"
    )
    counts = (RungCount(decode_rung(path), current, superseded) for path, current, superseded in rows)
    return tuple(sorted(counts, key=lambda count: count.rung))


def list_rungs(connection: sqlite3.Connection) -> tuple[Rung, ...]:
    """The rungs that hold memories, ordered by their values."""
    return tuple(sorted(decode_rung(row[0]) for row in connection.execute("SELECT path FROM rungs")))
