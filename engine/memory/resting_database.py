"""A tenant's database whose files are closed while nobody uses them."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precall.engine.errors import StorageUnavailable
from precall.engine.memory.database import Database
from precall.engine.memory.open_files import OpenFiles


class RestingDatabase(Database):
    """Answers as a `Database` does, which it opens when it is used and closes when `OpenFiles` wants room.

    So its users need not know: nothing that is under way loses its connection, and nothing that comes finds
    the files closed. Only ``close`` is for good. A file that cannot be opened (again) is told of by whatever
    asks it, as `Database` would at its start.
    """

    def __init__(self, path: Path, files: OpenFiles) -> None:
        """Opens nothing, and so raises nothing."""
        # Not Database's own __init__, which opens the files: this has one inside and none of its parts.
        self.path = path
        self.name = path.stem
        self._files = files
        self._guard = threading.Lock()  # held while the files are opened or closed: others wait for that
        self._awake: Database | None = None
        self._users = 0
        self._ended = False

    @property
    def closed(self) -> bool:
        return self._ended

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._used() as database, database.reading() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with self._used() as database, database.writing() as connection:
            yield connection

    def checkpoint(self) -> bool:
        with self._used() as database:
            return database.checkpoint()

    def rest(self) -> bool:
        """Close the files unless they are in use; returns whether they are closed now."""
        with self._guard:
            if self._users:
                return False
            if self._awake is not None:
                self._awake.close()
                self._awake = None
            return True

    def close(self) -> None:
        """Idempotent, and for good. Waits for the writer; readers at work close their connections."""
        with self._guard:
            self._ended = True
            database, self._awake = self._awake, None
        self._files.gone(self)
        if database is not None:
            database.close()

    @contextmanager
    def _used(self) -> Iterator[Database]:
        with self._guard:
            if self._ended:
                raise StorageUnavailable(f"the store of tenant {self.name!r} is closed")
            if self._awake is None:
                self._awake = Database(self.path)
            database = self._awake
            self._users += 1
        try:
            self._files.used(self)
            yield database
        finally:
            with self._guard:
                self._users -= 1
