"""Destroying memories inside one transaction, with everything that hangs on them.

A memory that is current under a key takes the whole history of that key with it, however it was reached: what
stands under a key is then always its newest statement, and no old one comes back to life. A superseded
statement goes alone. Both take what was derived from them, on any rung, and so on. What followed them in a
conversation loses their words from its weights.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from precall.engine.errors import InvalidInput
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Source
from precall.engine.memory.outcomes import DeletedMemory
from precall.engine.memory.placement import Placement
from precall.engine.memory.rows import CURRENT, decode_rung, digest, encode_rung, rungs_below
from precall.engine.memory.turns import TurnPlace, Turns

_CLOSURE = f"""
    WITH RECURSIVE doomed (number) AS (
        SELECT value FROM json_each(?)
        UNION
        SELECT d.child FROM doomed CROSS JOIN derivations d ON d.parent = doomed.number
        UNION
        SELECT statement.number
        FROM doomed
        CROSS JOIN memories head ON head.number = doomed.number
        CROSS JOIN memories statement
            ON statement.rung = head.rung AND statement.key_digest = head.key_digest
        WHERE head.state = {CURRENT} AND head.key_digest IS NOT NULL
    )
    SELECT m.number, m.id, r.path, m.state, m.kind, m.rung, m.conversation_digest, m.event_time
    FROM doomed CROSS JOIN memories m ON m.number = doomed.number JOIN rungs r ON r.number = m.rung
    ORDER BY m.number
"""

_NO_LIMIT = -1
"""As SQLite's LIMIT understands it."""


@dataclass(frozen=True, slots=True)
class NamedMemories:
    """Row numbers of the memories that a caller named, and the ids that it named in vain."""

    numbers: tuple[int, ...]
    missing_ids: tuple[str, ...] = ()


def named_by_ids(
    connection: sqlite3.Connection, ids: Iterable[str], visible_from: Rung | None
) -> NamedMemories:
    """``visible_from`` None sees all rungs."""
    wanted = tuple(dict.fromkeys(ids))
    rows = connection.execute(
        "SELECT m.id, m.number, r.path FROM memories m JOIN rungs r ON r.number = m.rung "
        "WHERE m.id IN (SELECT value FROM json_each(?))",
        (json.dumps(wanted),),
    )
    numbers = {row[0]: int(row[1]) for row in rows if _is_visible(row[2], visible_from)}
    return NamedMemories(
        tuple(numbers.values()), tuple(identity for identity in wanted if identity not in numbers)
    )


def named_by_scope(connection: sqlite3.Connection, rung: Rung) -> NamedMemories:
    """Those on the rung and on all below it."""
    rows = connection.execute(
        "SELECT m.number FROM rungs r CROSS JOIN memories m ON m.rung = r.number "
        "WHERE r.path = ? OR (r.path >= ? AND r.path < ?)",
        (encode_rung(rung), *rungs_below(rung)),
    )
    return NamedMemories(tuple(int(row[0]) for row in rows))


def named_by_source(
    connection: sqlite3.Connection, source: Source, visible_from: Rung | None
) -> NamedMemories:
    """Those that match every field that is given. Raises InvalidInput when too little is given."""
    source.check_length()
    if source.memory_ids:
        raise InvalidInput("forget what derives from memories by deleting those memories")
    if source.turn_id and not source.conversation_id:
        raise InvalidInput("turn_id alone names no source: give its conversation_id as well")
    if not source.conversation_id and not source.uri:
        raise InvalidInput("the source is empty: give a conversation_id or a uri")
    column, words = (
        ("conversation_digest", source.conversation_id)
        if source.conversation_id
        else ("uri_digest", source.uri)
    )
    rows = connection.execute(
        "SELECT m.number, r.path, m.conversation_id, m.turn_id, m.uri FROM memories m "
        f"JOIN rungs r ON r.number = m.rung WHERE m.{column} = ?",
        (digest(words),),
    )
    asked = (source.conversation_id, source.turn_id, source.uri)
    return NamedMemories(
        tuple(
            int(row[0])
            for row in rows
            if _is_visible(row[1], visible_from)
            and all(not wanted or wanted == found for wanted, found in zip(asked, row[2:], strict=True))
        )
    )


def named_by_expiry(connection: sqlite3.Connection, now: int, limit: int) -> NamedMemories:
    """Those that had expired at ``now`` (Unix microseconds), the longest expired first."""
    rows = connection.execute(
        "SELECT number FROM memories WHERE expires_at <= ? ORDER BY expires_at LIMIT ?", (now, limit)
    )
    return NamedMemories(tuple(int(row[0]) for row in rows))


def would_go_by_expiry(connection: sqlite3.Connection, now: int) -> frozenset[str]:
    """Ids of what had expired at ``now`` (Unix microseconds) and of all that hangs on it, on any rung."""
    numbers = named_by_expiry(connection, now, limit=_NO_LIMIT).numbers
    return frozenset(row[1] for row in connection.execute(_CLOSURE, (json.dumps(numbers),)))


@dataclass(frozen=True, slots=True)
class Destroyed:
    """``deleted`` in order of arrival; ``reweighed``: what stands, and had words of it in its weights."""

    deleted: tuple[DeletedMemory, ...]
    reweighed: tuple[IndexedMemory, ...]


def destroy(connection: sqlite3.Connection, numbers: Sequence[int]) -> Destroyed:
    """Delete the rows and all that hangs on them, and take their words out of the weights of others.

    Raises DamagedRow.
    """
    doomed = connection.execute(_CLOSURE, (json.dumps(numbers),)).fetchall()
    if not doomed:
        return Destroyed((), ())
    connection.execute(
        "DELETE FROM memories WHERE number IN (SELECT value FROM json_each(?))",
        (json.dumps([row[0] for row in doomed]),),
    )
    connection.execute(
        "DELETE FROM rungs WHERE path IN (SELECT value FROM json_each(?)) "
        "AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.rung = rungs.number)",
        (json.dumps(list({row[2] for row in doomed})),),
    )
    turns = Turns(connection, Placement.read(connection))
    for number, _, _, state, kind, rung, conversation, event_time in doomed:
        turn = TurnPlace.of(
            kind=kind, rung=rung, conversation=conversation, event_time=event_time, number=number
        )
        if state == CURRENT and turn is not None:
            turns.destroyed(turn)
    deleted = tuple(DeletedMemory(row[1], decode_rung(row[2]), row[3] == CURRENT) for row in doomed)
    return Destroyed(deleted, turns.settle())


def _is_visible(path: str, visible_from: Rung | None) -> bool:
    return visible_from is None or decode_rung(path).is_visible_from(visible_from)
