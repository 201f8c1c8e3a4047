"""Making a tenant's file: aside, complete, then under its name in one step."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from precall.engine.errors import AlreadyExists, InvalidInput, StorageUnavailable
from precall.engine.memory.database import connect, translated_errors
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.mark import MARK_SUFFIX
from precall.engine.memory.migration_record import MigrationRecord
from precall.engine.memory.schema import APPLICATION_ID, PAGE_BYTES, SCHEMA_VERSION, STATEMENTS
from precall.engine.memory.tenant_settings import TenantSettings

UNFINISHED_SUFFIX: Final = ".making"
COMPANION_SUFFIXES: Final = ("-wal", "-shm", "-journal", MARK_SUFFIX)
"""What SQLite, and a store, keep beside a database."""


def create_database(
    path: Path, *, tenant_id: str, ladder: Ladder, model_fingerprint: str, dimension: int
) -> None:
    """Make the file; a crash leaves it whole or not there at all.

    Raises AlreadyExists, InvalidInput, or StorageUnavailable.
    """
    if dimension < 1:
        raise InvalidInput(f"dimension must be at least 1, it is {dimension}")
    settings = TenantSettings(tenant_id, ladder, model_fingerprint, dimension)
    place(path, tenant_id=tenant_id, fill=lambda unfinished: _fill(unfinished, settings))


def place(path: Path, *, tenant_id: str, fill: Callable[[Path], None]) -> None:
    """Put a database under its name; ``fill`` makes it, whole and durable, at the path that it is given.

    Raises AlreadyExists, StorageUnavailable, or what ``fill`` raises; then nothing is left.
    """
    if path.exists():
        raise AlreadyExists(f"tenant {tenant_id!r} exists")
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    try:
        remove_database(unfinished)
        fill(unfinished)
        remove_companions(path)  # SQLite would replay a log left by an earlier file of this name
        os.link(unfinished, path)  # unlike a rename it refuses to overwrite
    except FileExistsError as error:
        raise AlreadyExists(f"tenant {tenant_id!r} exists") from error
    except OSError as error:
        raise StorageUnavailable(f"tenant {tenant_id!r} cannot be made: {error.strerror}") from error
    finally:
        remove_database(unfinished)
    synchronize_folder(path.parent)


def make_private(path: Path) -> None:
    """Make an empty file that nobody but the server's own user reads; SQLite gives the files beside it the
    same rights.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def remove_database(path: Path) -> None:
    """Unlink a database and what was kept beside it."""
    path.unlink(missing_ok=True)
    remove_companions(path)


def remove_companions(path: Path) -> None:
    for suffix in COMPANION_SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def synchronize_folder(folder: Path) -> None:
    """Make new and removed names in a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(path: Path, settings: TenantSettings) -> None:
    with translated_errors(settings.tenant_id):
        make_private(path)
        connection = connect(path, create=True)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for statement in STATEMENTS:
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES (1, ?, ?, ?, ?, ?, ?, 0, 0.0)", settings.columns)
            MigrationRecord.note_none(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
