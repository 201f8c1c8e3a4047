"""The tables of a tenant's file.

How deleted text is destroyed. ``PRAGMA secure_delete`` overwrites what is freed, but when SQLite balances a
b-tree it copies cells between pages and leaves stale copies in the gaps (measured on 3.40.1: about one
deleted text in 3,000 could still be read from the file). Overflow pages are never copied. So pages are small,
a row's fixed part, vector and ballast come first, and every column that holds the writer's words, or their
checksum, begins behind the part of a row that SQLite keeps in the b-tree. No index holds words either, only
digests. Ids and the values of a scope are names, not words, and stand outside this guarantee.
"""

import sqlite3
from functools import cache
from typing import Final

from precall.engine.memory.memory import MemoryKind
from precall.engine.memory.migration import MigrationState

APPLICATION_ID: Final = 0x70726361
"""Stands in the file's header ("prca"): tells a tenant's file from any other SQLite database."""

SCHEMA_VERSION: Final = 5
"""Kept in ``PRAGMA user_version``; raised by whoever changes a table."""

PAGE_BYTES: Final = 512
"""SQLite's smallest. At most 477 bytes of a row stay in the b-tree; loading costs a fifth more than with
4,096, single commits half as much."""

LOCAL_BYTES: Final = 480
"""Vector and ballast together are at least this long, hence no word stays in the b-tree."""

CURRENT_TURN: Final = f"kind = '{MemoryKind.EPISODE.value}' AND conversation_digest IS NOT NULL AND state = 0"
"""What stands in the order of its conversation: see `precall.engine.memory.turns`."""

SCHEMA_QUERY: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema"

_KINDS = ", ".join(f"'{kind.value}'" for kind in MemoryKind)
_MIGRATION_STATES = ", ".join(f"'{state.value}'" for state in MigrationState)

STATEMENTS: Final = (
    """
    CREATE TABLE meta (
        row               INTEGER PRIMARY KEY CHECK (row = 1),
        tenant_id         TEXT NOT NULL,
        levels            TEXT NOT NULL,               -- JSON array, from the top
        model_fingerprint TEXT NOT NULL,
        dimension         INTEGER NOT NULL CHECK (dimension > 0),
        analyzer_version  INTEGER NOT NULL,            -- of precall.scoring.terms, which made the weights
        settings_checksum INTEGER NOT NULL,            -- CRC-32 of the five above
        version           INTEGER NOT NULL CHECK (version >= 0),
        lease_horizon     REAL NOT NULL                -- Unix seconds
    ) STRICT
    """,
    """
    CREATE TABLE rungs (
        number INTEGER PRIMARY KEY,
        path   TEXT NOT NULL UNIQUE                    -- JSON array of the values, from the top
    ) STRICT
    """,
    f"""
    CREATE TABLE memories (
        number              INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of arrival, never used twice
        id                  TEXT NOT NULL UNIQUE,
        rung                INTEGER NOT NULL REFERENCES rungs (number),
        state               INTEGER NOT NULL CHECK (state IN (0, 1)),  -- 0 current, 1 superseded
        kind                TEXT NOT NULL CHECK (kind IN ({_KINDS})),
        pinned              INTEGER NOT NULL CHECK (pinned IN (0, 1)),
        confidence          REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
        importance          REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
        event_time          INTEGER NOT NULL,          -- moments are Unix microseconds
        said_time           INTEGER NOT NULL,
        valid_from          INTEGER,
        valid_until         INTEGER,
        expires_at          INTEGER,
        created_at          INTEGER NOT NULL,
        created_version     INTEGER NOT NULL CHECK (created_version > 0),
        superseded_version  INTEGER NOT NULL,
        superseded_at       INTEGER,
        fate_checksum       INTEGER NOT NULL,          -- CRC-32 of state, superseded_version, superseded_at
        tokens_given        INTEGER NOT NULL,
        tokens_used         INTEGER NOT NULL,
        key_digest          BLOB,                      -- NULL: no key, no conversation, no uri
        conversation_digest BLOB,
        uri_digest          BLOB,
        vector              BLOB NOT NULL,             -- little-endian float16
        ballast             BLOB NOT NULL,             -- zeros after a short vector; words follow behind it
        text                TEXT NOT NULL,
        key                 TEXT NOT NULL,
        conversation_id     TEXT NOT NULL,
        turn_id             TEXT NOT NULL,
        uri                 TEXT NOT NULL,
        derived_from        TEXT NOT NULL,             -- JSON array of memory ids
        questions           TEXT NOT NULL,             -- JSON array
        metadata            TEXT NOT NULL,             -- JSON object
        said_checksum       INTEGER NOT NULL,          -- CRC-32 of what was said and never changes
        impact_terms        TEXT NOT NULL,             -- JSON array
        impact_weights      BLOB NOT NULL,             -- little-endian float32, one a term
        indexed_checksum    INTEGER NOT NULL,          -- CRC-32 of vector, terms and weights
        CHECK ((state = 0) = (superseded_version = 0)),
        CHECK ((state = 0) = (superseded_at IS NULL)),
        CHECK (superseded_at IS NULL OR superseded_at >= created_at),
        CHECK (state = 0 OR key_digest IS NOT NULL),
        CHECK ((key = '') = (key_digest IS NULL)),
        CHECK (length(vector) + length(ballast) >= {LOCAL_BYTES})
    ) STRICT
    """,
    "CREATE INDEX memories_by_rung ON memories (rung)",
    "CREATE INDEX memories_by_state ON memories (rung, state)",
    """
    CREATE UNIQUE INDEX memories_current ON memories (rung, key_digest)
        WHERE state = 0 AND key_digest IS NOT NULL
    """,
    "CREATE INDEX memories_by_key ON memories (rung, key_digest) WHERE key_digest IS NOT NULL",
    """
    CREATE INDEX memories_by_conversation ON memories (conversation_digest)
        WHERE conversation_digest IS NOT NULL
    """,
    # Current turns as they were said, a row's number being behind what an index names.
    f"""
    CREATE INDEX memories_by_turn ON memories (rung, conversation_digest, event_time)
        WHERE {CURRENT_TURN}
    """,
    "CREATE INDEX memories_by_uri ON memories (uri_digest) WHERE uri_digest IS NOT NULL",
    "CREATE INDEX memories_by_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE derivations (
        parent INTEGER NOT NULL REFERENCES memories (number) ON DELETE CASCADE,
        child  INTEGER NOT NULL REFERENCES memories (number) ON DELETE CASCADE,
        PRIMARY KEY (parent, child)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX derivations_by_child ON derivations (child)",
    f"""
    CREATE TABLE migration (
        row              INTEGER PRIMARY KEY CHECK (row = 1),
        state            TEXT CHECK (state IN ({_MIGRATION_STATES})),  -- NULL: there has been none
        serial           INTEGER NOT NULL,
        from_fingerprint TEXT NOT NULL,
        from_dimension   INTEGER NOT NULL,
        to_fingerprint   TEXT NOT NULL,
        to_dimension     INTEGER NOT NULL,
        last             INTEGER NOT NULL,             -- numbers of memories: see MigrationRecord
        settled          INTEGER NOT NULL,
        overlap_at_10    REAL,
        compared_queries INTEGER NOT NULL,
        checksum         INTEGER NOT NULL              -- CRC-32 of all of it but the row's number
    ) STRICT
    """,
    f"""
    CREATE TABLE next_vectors (
        number   INTEGER PRIMARY KEY REFERENCES memories (number) ON DELETE CASCADE,
        ballast  BLOB NOT NULL CHECK (length(ballast) = {LOCAL_BYTES}),  -- zeros
        vector   BLOB NOT NULL,                        -- little-endian float16
        checksum INTEGER NOT NULL                      -- CRC-32 of number and vector
    ) STRICT
    """,
    """
    CREATE TABLE requests (
        request_id TEXT PRIMARY KEY,
        digest     BLOB NOT NULL,                      -- of what was asked
        outcome    TEXT NOT NULL,                      -- JSON, without anybody's words
        created_at INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX requests_by_age ON requests (created_at)",
)


@cache
def schema_objects() -> frozenset[tuple[str | None, ...]]:
    """What SQLite notes of each table and index, its own included: another note, or one that is missing, is
    damage.
    """
    connection = sqlite3.connect(":memory:")
    try:
        for statement in STATEMENTS:
            connection.execute(statement)
        return frozenset(connection.execute(SCHEMA_QUERY))
    finally:
        connection.close()
