"""The tenants of one server: a folder with a file for each."""

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from precall.engine.errors import ConfigurationError, InvalidInput, StorageUnavailable, TenantNotFound
from precall.engine.memory.backup import restore
from precall.engine.memory.creation import (
    COMPANION_SUFFIXES,
    UNFINISHED_SUFFIX,
    create_database,
    remove_companions,
    remove_database,
    synchronize_folder,
)
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.open_files import OpenFiles
from precall.engine.memory.reserve import Reserve
from precall.engine.memory.resting_database import RestingDatabase
from precall.engine.memory.store import TenantStore

TENANTS_FOLDER: Final = "tenants"
"""Of a server's data folder; the registry's own."""

FILE_SUFFIX: Final = ".db"
REMOVED_SUFFIX: Final = ".removed"
OPEN_FILES: Final = 200
"""Tenants whose files stay open while nobody uses them."""
PRIVATE_FOLDER: Final = 0o700
"""Memories are in clear on disk: nobody but the server's own user enters."""
LOCK_NAME: Final = ".lock"
_GUARDS: Final = 64
"""Opening a tenant may take seconds, after a crash say: the others, but for one in 64, do not wait for it."""
_TENANT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_tenant_id(tenant_id: str) -> None:
    """Raises InvalidInput for what can be no tenant's id, and so no file's name."""
    if not _TENANT_ID.fullmatch(tenant_id):
        raise InvalidInput(
            f"{tenant_id!r} is no tenant id: use 1 to 63 lower-case letters, digits, '-' and '_', "
            "a letter or digit first"
        )


class TenantRegistry:
    """Owns the folder for one process, and keeps one open store a tenant. Thread-safe.

    No tenant's contents are read until it is opened: neither a thousand tenants nor a damaged one keep a
    server from starting. Methods that touch the disk may raise StorageUnavailable.
    """

    def __init__(
        self, folder: Path, *, clock: Callable[[], float] = time.time, open_files: int = OPEN_FILES
    ) -> None:
        """Makes the folder if need be. ``clock``: Unix seconds. ``open_files``: tenants whose files stay open
        while nobody uses them. Raises ConfigurationError if another process owns the folder.
        """
        self.folder = folder
        self._clock = clock
        self._files = OpenFiles(open_files)
        self._guards = [threading.Lock() for _ in range(_GUARDS)]
        self._stores: dict[str, TenantStore] = {}
        self._databases: dict[str, RestingDatabase] = {}
        self._lock_descriptor: int | None = _own(folder)
        self._sweep()
        self._reserve = Reserve(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self, tenant_id: str, *, ladder: Ladder, model_fingerprint: str, dimension: int
    ) -> TenantStore:
        """Make a tenant, whole or not at all, and open it. Raises AlreadyExists, InvalidInput."""
        path = self._path(tenant_id)
        with self._guard(tenant_id):
            self._refuse_closed()
            create_database(
                path,
                tenant_id=tenant_id,
                ladder=ladder,
                model_fingerprint=model_fingerprint,
                dimension=dimension,
            )
            store = self._stores[tenant_id] = self._open(path)
            return store

    def restore(
        self, backup: Path, tenant_id: str, *, sha256: str | None = None, fingerprint: str | None = None
    ) -> None:
        """Make a tenant from a backup, whole or not at all, under the name that it had or another one.

        ``sha256``: what the backup must have; None: what the file beside it says. ``fingerprint``: of the
        model that will serve it; None takes any. Raises AlreadyExists, InvalidInput, TenantNotFound (no such
        backup), TenantQuarantined (it is damaged), ConfigurationError (another schema version).
        """
        path = self._path(tenant_id)
        with self._guard(tenant_id):
            self._refuse_closed()
            restore(backup, path, tenant_id=tenant_id, sha256=sha256, fingerprint=fingerprint)

    def open(self, tenant_id: str) -> TenantStore:
        """The tenant's store; the same one to everybody until somebody closes it.

        Raises InvalidInput, TenantNotFound, TenantQuarantined, or ConfigurationError for a file of another
        schema version or one that belongs to another tenant.
        """
        path = self._path(tenant_id)
        with self._guard(tenant_id):
            self._refuse_closed()
            store = self._stores.get(tenant_id)
            if store is None or store.closed:
                store = self._open(path)
                if store.tenant_id != tenant_id:
                    store.close()
                    raise ConfigurationError(
                        f"the file of tenant {tenant_id!r} is that of {store.tenant_id!r}: rename it back"
                    )
                self._stores[tenant_id] = store
            return store

    def is_open(self, tenant_id: str) -> bool:
        """Whether its files are open at this moment."""
        database = self._databases.get(tenant_id)
        return database is not None and database in self._files

    @property
    def open_files(self) -> int:
        """Tenants whose files are open now."""
        return len(self._files)

    def exists(self, tenant_id: str) -> bool:
        """Raises InvalidInput for what can be no tenant's id."""
        return self._path(tenant_id).exists()

    def list(self) -> tuple[str, ...]:
        """The tenants' ids in order, by their files alone."""
        stems = (path.stem for path in self.folder.iterdir() if path.suffix == FILE_SUFFIX)
        return tuple(sorted(stem for stem in stems if _TENANT_ID.fullmatch(stem)))

    def delete(self, tenant_id: str) -> None:
        """Close the tenant's store and remove its files, a damaged tenant's too. Raises TenantNotFound.

        After a crash in the middle the tenant is either untouched or gone; `_sweep` removes what was left.
        """
        path = self._path(tenant_id)
        with self._guard(tenant_id):
            self._refuse_closed()
            if not path.exists():
                raise TenantNotFound(f"there is no tenant {tenant_id!r}")
            store = self._stores.pop(tenant_id, None)
            self._databases.pop(tenant_id, None)
            if store is not None:
                store.close()
            removed = path.with_name(path.name + REMOVED_SUFFIX)
            try:
                path.rename(removed)
                remove_companions(path)
                removed.unlink()
                synchronize_folder(self.folder)
            except OSError as error:
                raise StorageUnavailable(
                    f"tenant {tenant_id!r} cannot be removed: {error.strerror}"
                ) from error

    def close(self) -> None:
        """Idempotent: closes every store and gives the folder up."""
        with contextlib.ExitStack() as stack:
            for guard in self._guards:
                stack.enter_context(guard)
            if self._lock_descriptor is None:
                return
            for store in self._stores.values():
                store.close()
            self._stores.clear()
            self._reserve.release()
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def _guard(self, tenant_id: str) -> threading.Lock:
        """Held while a tenant's files come or go."""
        return self._guards[hash(tenant_id) % _GUARDS]

    def _open(self, path: Path) -> TenantStore:
        database = self._databases[path.stem] = RestingDatabase(path, self._files)
        try:
            return TenantStore(database, clock=self._clock, reserve=self._reserve)
        except BaseException:
            del self._databases[path.stem]
            database.close()
            raise

    def _path(self, tenant_id: str) -> Path:
        check_tenant_id(tenant_id)
        return self.folder / f"{tenant_id}{FILE_SUFFIX}"

    def _refuse_closed(self) -> None:
        if self._lock_descriptor is None:
            raise StorageUnavailable("the tenant registry is closed")

    def _sweep(self) -> None:
        """Remove what a crash in the middle of `create` or `delete` left: one pass over names."""
        names = {entry.name for entry in self.folder.iterdir()}
        for name in names:
            owner = next((name.removesuffix(s) for s in COMPANION_SUFFIXES if name.endswith(s)), None)
            if name.endswith((FILE_SUFFIX + UNFINISHED_SUFFIX, FILE_SUFFIX + REMOVED_SUFFIX)):
                remove_database(self.folder / name)
            elif owner is not None and owner.endswith(FILE_SUFFIX) and owner not in names:
                (self.folder / name).unlink(missing_ok=True)


def _own(folder: Path) -> int:
    """Lock the folder for this process; the descriptor holds the lock until it is closed."""
    try:
        folder.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"the data folder {folder} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigurationError(
            f"the data folder {folder} belongs to another precall server: stop it, or choose another folder"
        ) from error
    return descriptor
