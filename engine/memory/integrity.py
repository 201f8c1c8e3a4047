"""What must be true of a tenant's file at every moment, checked on one consistent state of it."""

import json
import sqlite3
from collections.abc import Iterator

from precall.engine.errors import TenantQuarantined
from precall.engine.memory.migration import MigrationState
from precall.engine.memory.next_vectors import decode_next_vector
from precall.engine.memory.placement import Placement
from precall.engine.memory.rows import CURRENT, SUPERSEDED, digest
from precall.engine.memory.tenant_settings import TenantSettings

_VIOLATIONS = (
    (
        "a key's current statement is not its newest, or there is not exactly one",
        f"""
        SELECT 1 FROM memories WHERE key_digest IS NOT NULL GROUP BY rung, key_digest
        HAVING sum(state = {CURRENT}) <> 1
            OR max(CASE WHEN state = {CURRENT} THEN event_time END) <> max(event_time)
        """,
    ),
    (
        "of statements about the same moment an earlier arrival stands",
        f"""
        SELECT 1 FROM memories head JOIN memories later USING (rung, key_digest, event_time)
        WHERE head.state = {CURRENT} AND later.state = {SUPERSEDED} AND later.number > head.number
        """,
    ),
    (
        "a memory names a version that never was",
        f"""
        SELECT 1 FROM memories, meta
        WHERE created_version > version OR superseded_version > version
            OR (state = {SUPERSEDED} AND (superseded_version < created_version OR superseded_at < created_at))
        """,
    ),
    (
        "a rung holds nothing",
        "SELECT 1 FROM rungs WHERE NOT EXISTS (SELECT 1 FROM memories WHERE rung = rungs.number)",
    ),
    (
        "a memory was derived from a later one",
        "SELECT 1 FROM derivations WHERE parent >= child",
    ),
)


def check_integrity(connection: sqlite3.Connection, *, name: str) -> None:
    """Read the whole file. Raises TenantQuarantined with the first fault that is found."""
    for fault in _faults(connection, name):
        raise TenantQuarantined(f"the file of tenant {name!r} is damaged: {fault}")


def check_structure(connection: sqlite3.Connection, *, name: str) -> None:
    """As `check_integrity`, without decoding the rows."""
    for fault in _structural_faults(connection):
        raise TenantQuarantined(f"the file of tenant {name!r} is damaged: {fault}")


def _faults(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    yield from _structural_faults(connection)
    TenantSettings.read(connection, name=name)
    placement = Placement.read(connection)
    yield from _row_faults(connection, placement)
    yield from _next_vector_faults(connection, placement)


def _structural_faults(connection: sqlite3.Connection) -> Iterator[str]:
    for (report,) in connection.execute("PRAGMA integrity_check(1)"):
        if report != "ok":
            yield str(report)
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        yield f"a row of {table} points nowhere"
    for fault, query in _VIOLATIONS:
        if connection.execute(f"{query} LIMIT 1").fetchone():
            yield fault


def _row_faults(connection: sqlite3.Connection, placement: Placement) -> Iterator[str]:
    origins = "(SELECT json_group_array(p.id) FROM derivations d JOIN memories p ON p.number = d.parent "
    rows = connection.execute(
        f"SELECT m.key_digest, m.conversation_digest, m.uri_digest, {origins} WHERE d.child = m.number), "
        f"{placement.columns} {placement.tables} ORDER BY m.number"
    )
    for key_digest, conversation_digest, uri_digest, linked, *row in rows:
        memory = placement.decode(row).memory
        expected = (digest(memory.key), digest(memory.source.conversation_id), digest(memory.source.uri))
        if (key_digest, conversation_digest, uri_digest) != expected:
            yield f"memory {memory.id!r} cannot be found by its words"
        if set(json.loads(linked)) != set(memory.source.memory_ids):
            yield f"memory {memory.id!r} has lost an origin"


def _next_vector_faults(connection: sqlite3.Connection, placement: Placement) -> Iterator[str]:
    """Of those that `_row_faults` does not read: there should be none, or they are being removed."""
    if placement.record is None or placement.state is MigrationState.FINISHED:
        if connection.execute("SELECT EXISTS (SELECT 1 FROM next_vectors)").fetchone()[0]:
            yield "there are vectors of a model that the tenant does not migrate to"
    elif placement.state is MigrationState.ROLLED_BACK:
        for row in connection.execute("SELECT number, vector, checksum FROM next_vectors"):
            decode_next_vector(*row, dimension=placement.record.new.dimension)
