"""A tenant's SQLite file: one guarded writer, a pool of readers, and errors in the engine's own words."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from precall.engine.errors import ConfigurationError, StorageUnavailable, TenantNotFound, TenantQuarantined
from precall.engine.memory.rows import DamagedRow
from precall.engine.memory.schema import APPLICATION_ID, SCHEMA_QUERY, SCHEMA_VERSION, schema_objects

BUSY_MILLISECONDS: Final = 5_000
IDLE_READERS: Final = 4
AUTOCHECKPOINT_PAGES: Final = 8_192
"""4 MiB of the write-ahead log, as much as SQLite's default allows with its bigger pages."""

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_REFUSED = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOLFS,
    }
)
_PRIMARY_CODE = 0xFF
_UNREADABLE_TEXT = "Could not decode to UTF-8"
"""Python's own complaint about damaged text; it comes without a code."""


@contextmanager
def translated_errors(name: str) -> Iterator[None]:
    """Raise StorageUnavailable for a disk that refuses and TenantQuarantined for a damaged file or row.

    Any other SQLite error is a fault of ours and passes through.
    """
    try:
        yield
    except (DamagedRow, UnicodeDecodeError) as error:  # a damaged schema is quoted by SQLite, byte for byte
        raise _damaged(name, error) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        if code in _DAMAGE or str(error).startswith(_UNREADABLE_TEXT):
            raise _damaged(name, error) from error
        if code in _REFUSED:
            raise StorageUnavailable(
                f"the disk refused a request for tenant {name!r} ({error}); nothing of it was kept"
            ) from error
        raise


def _damaged(name: str, error: Exception) -> TenantQuarantined:
    return TenantQuarantined(f"the file of tenant {name!r} is damaged ({error}): restore it from a backup")


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode with the settings that the guarantees rest on."""
    mode = "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_header(connection: sqlite3.Connection, *, name: str) -> None:
    """Raises TenantQuarantined, or ConfigurationError for a file of another schema version."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise TenantQuarantined(
            f"the file of tenant {name!r} was not made by precall: restore it from a backup"
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION and frozenset(connection.execute(SCHEMA_QUERY)) != schema_objects():
        raise TenantQuarantined(f"the file of tenant {name!r} has damaged tables: restore it from a backup")
    if version != SCHEMA_VERSION:
        raise ConfigurationError(
            f"the file of tenant {name!r} has schema version {version}, this precall reads {SCHEMA_VERSION}: "
            "run the precall that wrote it"
        )


class Database:
    """Transactions on one existing tenant file; safe to use from any thread.

    Writers take turns behind a lock. Readers never wait for them: each has a connection of its own from the
    pool and sees one consistent state until its block ends. At most `IDLE_READERS` connections are kept.
    """

    def __init__(self, path: Path) -> None:
        """Raises TenantNotFound, TenantQuarantined, StorageUnavailable, or ConfigurationError for a file
        of another schema version.
        """
        if not path.exists():
            raise TenantNotFound(f"there is no tenant {path.stem!r}")
        self.path = path
        self.name = path.stem
        self._writer_lock = threading.Lock()
        self._pool_lock = threading.Lock()
        self._idle_readers: list[sqlite3.Connection] = []
        self._closed = False
        with translated_errors(self.name):
            self._writer = connect(path)
            try:
                check_header(self._writer, name=self.name)
            except BaseException:
                self._writer.close()
                raise

    @property
    def closed(self) -> bool:
        return self._closed

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent state of the file for the length of the block."""
        with translated_errors(self.name):
            reader = self._take_reader()
            try:
                reader.execute("BEGIN")
                yield reader
            finally:
                self._give_back(reader)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: durable when the block has ended, undone if it raises."""
        with translated_errors(self.name), self._writer_lock:
            self._refuse_closed()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # SQLite ends it by itself on some errors
                    self._writer.execute("ROLLBACK")
                raise

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the file and empty it, without waiting for anybody.

        False while a reader still needs the log: deleted bytes may stand in it until a later call.
        """
        with translated_errors(self.name), self._writer_lock:
            self._refuse_closed()
            self._writer.execute("PRAGMA busy_timeout = 0")
            try:
                busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                self._writer.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            return not busy

    def close(self) -> None:
        """Idempotent. Waits for the writer; readers still at work close their connections themselves."""
        with self._writer_lock:
            with self._pool_lock:
                self._closed = True
                idle, self._idle_readers = self._idle_readers, []
            for reader in idle:
                reader.close()
            self._writer.close()

    def _take_reader(self) -> sqlite3.Connection:
        with self._pool_lock:
            self._refuse_closed()
            if self._idle_readers:
                return self._idle_readers.pop()
        reader = connect(self.path)
        reader.execute("PRAGMA query_only = ON")
        return reader

    def _give_back(self, reader: sqlite3.Connection) -> None:
        if reader.in_transaction:
            reader.execute("ROLLBACK")
        with self._pool_lock:
            if not self._closed and len(self._idle_readers) < IDLE_READERS:
                self._idle_readers.append(reader)
                return
        reader.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageUnavailable(f"the store of tenant {self.name!r} is closed")
