"""A tenant's file as a backup: one consistent state, compact, checksummed, there whole or not at all.

A backup holds what stood then. What is deleted later is in it still, and comes back when it is restored; what
was deleted before is not in it, not even as free space, for the copy is built anew row by row.
"""

import hashlib
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from precall.engine.errors import AlreadyExists, InvalidInput, StorageUnavailable, TenantNotFound
from precall.engine.memory.creation import make_private, place, remove_database, synchronize_folder
from precall.engine.memory.database import connect, translated_errors
from precall.engine.memory.snapshot import Snapshot
from precall.engine.memory.tenant_settings import TenantSettings

SUFFIX: Final = ".precall-backup"
CHECKSUM_SUFFIX: Final = ".sha256"
"""Of the file beside a backup, in the format of `sha256sum`."""

_UNFINISHED_SUFFIX: Final = ".making"
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """A finished backup. ``version``: the tenant's, of the state that it holds. ``sha256``: hexadecimal."""

    path: Path
    version: int
    size_bytes: int
    sha256: str


def back_up(source: Path, folder: Path, *, tenant_id: str, moment: float) -> Backup:
    """Copy a tenant's file while it is written to. ``moment``: Unix seconds, for the backup's name.

    Nobody waits for it, and it waits for nobody. Raises InvalidInput for a folder that is none,
    AlreadyExists, StorageUnavailable, or TenantQuarantined for a damaged file.
    """
    if not folder.is_absolute() or not folder.is_dir():
        raise InvalidInput(
            f"{folder} is no folder on the server's machine: make it, and name it from the root"
        )
    stamp = datetime.fromtimestamp(moment, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    unfinished = folder / f"{tenant_id}-{stamp}-{secrets.token_hex(4)}{_UNFINISHED_SUFFIX}"
    try:
        make_private(unfinished)
        with translated_errors(tenant_id):
            connection = connect(source)
            try:
                connection.execute("VACUUM INTO ?", (str(unfinished),))
            finally:
                connection.close()
        with Snapshot(unfinished) as copy:
            copy.check_structure()
            version = copy.version
        return _finish(unfinished, folder / f"{tenant_id}-{stamp}-v{version}{SUFFIX}", version)
    except OSError as error:
        raise StorageUnavailable(f"a backup cannot be written to {folder}: {error.strerror}") from error
    finally:
        remove_database(unfinished)


def restore(backup: Path, path: Path, *, tenant_id: str, sha256: str | None, fingerprint: str | None) -> None:
    """Put a backup in the place of a tenant's file, under a name that may be another one.

    ``sha256``: what the backup must have; None: what the file beside it says. ``fingerprint``: of the model
    that will serve it; None takes any. Raises AlreadyExists, and what `check_backup` raises.
    """
    if path.exists():
        raise AlreadyExists(f"tenant {tenant_id!r} exists: restore it under another name, or delete it first")

    _require_file(backup)

    def fill(unfinished: Path) -> None:
        make_private(unfinished)
        _copy(backup, unfinished)
        checksum = sha256 or _noted_checksum(backup)
        _check(unfinished, named=backup, sha256=checksum, fingerprint=fingerprint)
        with translated_errors(tenant_id):
            connection = connect(unfinished)
            try:
                TenantSettings.read(connection, name=tenant_id).rename(connection, tenant_id)
                connection.execute("PRAGMA journal_mode = WAL")
            finally:
                connection.close()

    place(path, tenant_id=tenant_id, fill=fill)


def check_backup(
    backup: Path, *, sha256: str | None = None, fingerprint: str | None = None
) -> TenantSettings:
    """Read all of a backup: its checksum, its schema, every row of it. The settings speak of the model that
    serves it, and ``fingerprint`` is compared with that one's.

    Raises InvalidInput for another checksum or another model, TenantQuarantined for damage,
    ConfigurationError for another schema version, TenantNotFound for no file.
    """
    _require_file(backup)
    checksum = sha256 or _noted_checksum(backup)
    return _check(backup, named=backup, sha256=checksum, fingerprint=fingerprint)


def _check(file: Path, *, named: Path, sha256: str, fingerprint: str | None) -> TenantSettings:
    """As `check_backup`. ``named``: the backup as the caller knows it, of which the file may be a copy."""
    found = _checksum(file)
    if found != sha256.lower():
        raise InvalidInput(f"{named} is not what was backed up: its SHA-256 is {found}, not {sha256}")
    with Snapshot(file) as snapshot:
        settings = snapshot.settings
        if fingerprint is not None and settings.model_fingerprint != fingerprint:
            raise InvalidInput(
                f"{named} is served by model {settings.model_fingerprint}, not by {fingerprint}"
            )
        snapshot.check_integrity()
        return settings


def _finish(unfinished: Path, path: Path, version: int) -> Backup:
    """Durable under its name, its checksum beside it."""
    if path.exists():
        raise AlreadyExists(f"there is a backup of this moment: {path}")
    checksum = _checksum(unfinished)
    noted = path.with_name(path.name + CHECKSUM_SUFFIX)
    with noted.open("w", encoding="utf-8") as file:
        file.write(f"{checksum}  {path.name}\n")
        file.flush()
        os.fsync(file.fileno())
    size = unfinished.stat().st_size
    _synchronize(unfinished)
    unfinished.rename(path)
    synchronize_folder(path.parent)
    return Backup(path, version, size, checksum)


def _noted_checksum(backup: Path) -> str:
    noted = backup.with_name(backup.name + CHECKSUM_SUFFIX)
    try:
        words = noted.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"there is no {noted.name} beside {backup}: say which SHA-256 it must have (--sha256)"
        ) from error
    if not words:
        raise InvalidInput(f"{noted} is empty: say which SHA-256 {backup} must have (--sha256)")
    return words[0]


def _require_file(backup: Path) -> None:
    if not backup.is_file():
        raise TenantNotFound(f"there is no backup {backup}")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        while chunk := reading.read(_CHUNK_BYTES):
            writing.write(chunk)
    _synchronize(target)


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
