"""One state of a tenant's file, read and never changed: for backups, exports and checks."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from precall.engine.errors import TenantNotFound
from precall.engine.memory import destroying, integrity, reading
from precall.engine.memory.database import check_header, translated_errors
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.placement import Placement
from precall.engine.memory.tenant_settings import TenantSettings


class Snapshot:
    """The state of the moment at which it is opened, whatever a server writes meanwhile.

    ``settings`` speaks of the model that serves the tenant, and `memories` has its vectors. For one thread.

    A server's own file may be read, by its user and on its machine: while that lasts, the server's log grows,
    and what it destroys stands in the log.
    """

    def __init__(self, path: Path) -> None:
        """Raises TenantNotFound, TenantQuarantined, StorageUnavailable, or ConfigurationError for a file of
        another schema version.
        """
        if not path.is_file():
            raise TenantNotFound(f"there is no file {path}")
        self._name = path.name
        with translated_errors(self._name):
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None
            )
            try:
                check_header(self._connection, name=self._name)
                self._connection.execute("BEGIN")
                self._placement = Placement.read(self._connection)
                settings = TenantSettings.read(self._connection, name=self._name)
                self.settings = settings.indexed_by(self._placement.serving)
                self.version = reading.read_version(self._connection)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def count(self) -> int:
        """Memories, history included."""
        with translated_errors(self._name):
            return int(self._connection.execute("SELECT count(*) FROM memories").fetchone()[0])

    def memories(self, *, standing_at: int | None = None) -> Iterator[IndexedMemory]:
        """All of them, history and what has expired included, in order of arrival.

        ``standing_at``, Unix microseconds: less what had expired then and what hangs on it, which the server
        destroys together, if later.
        """
        with translated_errors(self._name):
            gone: frozenset[str] = frozenset()
            if standing_at is not None:
                gone = destroying.would_go_by_expiry(self._connection, standing_at)
            for indexed in reading.stream_all(self._connection, self._placement.view(None)):
                if indexed.memory.id not in gone:
                    yield indexed

    def check_structure(self) -> None:
        """What SQLite itself can tell of damage, at its own speed and without Python's lock: pages, indices,
        constraints; not the rows' checksums.
        """
        with translated_errors(self._name):
            integrity.check_structure(self._connection, name=self._name)

    def check_integrity(self) -> None:
        """Read everything. Raises TenantQuarantined with the first fault that is found."""
        with translated_errors(self._name):
            integrity.check_integrity(self._connection, name=self._name)

    def close(self) -> None:
        self._connection.close()
