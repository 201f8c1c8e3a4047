"""The last part of a migration: one set of vectors remains, a chunk of rows at a time.

Each chunk is a transaction, so a crash between any two leaves a file that says itself how far it has come.
"""

import sqlite3
from dataclasses import dataclass, replace
from typing import Final

from precall.engine.memory.encoded_memory import ballast
from precall.engine.memory.migration import MigrationState
from precall.engine.memory.migration_record import MigrationRecord
from precall.engine.memory.placement import Placement
from precall.engine.memory.rows import DamagedRow, Row
from precall.engine.memory.tenant_settings import TenantSettings

_MOVE: Final = "UPDATE memories SET vector = ?, ballast = ?, indexed_checksum = ? WHERE number = ?"


@dataclass(frozen=True, slots=True)
class Settled:
    """``record`` after a chunk; ``more``: whether there is another one."""

    record: MigrationRecord
    more: bool


def settle(connection: sqlite3.Connection, placement: Placement, *, limit: int, name: str) -> Settled | None:
    """One chunk of at most ``limit`` rows; None in a state in which there is nothing to settle.

    Call it inside a transaction; the caller stores the record. Raises DamagedRow, or TenantQuarantined,
    which speaks of ``name``.
    """
    record = placement.record
    if record is None:
        return None
    if record.state is MigrationState.ROLLED_BACK:
        return Settled(record, more=_clear(connection, limit))
    if record.state is not MigrationState.FINISHING:
        return None
    rows = connection.execute(
        f"SELECT {placement.columns} {placement.tables} "
        "WHERE m.number > ? AND m.number <= ? ORDER BY m.number LIMIT ?",
        (record.settled, record.last, limit),
    ).fetchall()
    if rows:
        numbers = [int(row[-3]) for row in rows]
        found = placement.view(None).indexed_rows(rows)  # verified: damage must not get a new checksum
        connection.executemany(_MOVE, map(_moved, found, numbers))
        connection.execute(
            "DELETE FROM next_vectors WHERE number > ? AND number <= ?", (record.settled, numbers[-1])
        )
        return Settled(replace(record, settled=numbers[-1]), more=True)
    if connection.execute("SELECT EXISTS (SELECT 1 FROM next_vectors)").fetchone()[0]:
        raise DamagedRow("there are new vectors that belong to no memory, or were moved before")
    TenantSettings.read(connection, name=name).indexed_by(record.new).store(connection)
    return Settled(replace(record, state=MigrationState.FINISHED), more=False)


def _clear(connection: sqlite3.Connection, limit: int) -> bool:
    """Whether any are left."""
    connection.execute(
        "DELETE FROM next_vectors WHERE number IN (SELECT number FROM next_vectors ORDER BY number LIMIT ?)",
        (limit,),
    )
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM next_vectors)").fetchone()[0])


def _moved(row: Row, number: int) -> tuple[object, ...]:
    """What `_MOVE` takes, of a row of `INDEXED_COLUMNS` that has its new vector."""
    vector, _, _, checksum = row[-4:]
    return vector, ballast(vector), checksum, number
