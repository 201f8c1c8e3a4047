"""When a tenant's next memory expires, known without asking the disk."""

import threading
from collections.abc import Iterable, Sequence
from typing import Final

from precall.engine.memory.database import Database
from precall.engine.memory.memory import to_unix_microseconds
from precall.engine.memory.prepared import PreparedMemory

NEVER: Final[int] = 2**63 - 1


class Expiry:
    """``earliest`` is never too late; it is too early when what would have expired was deleted before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._earliest = NEVER
        self._guard = threading.Lock()  # what is noted during a refresh must not be forgotten by it
        self.refresh()

    @property
    def earliest(self) -> int:
        """Unix microseconds; `NEVER` when nothing expires."""
        return self._earliest

    def note(self, batches: Iterable[Sequence[PreparedMemory]]) -> None:
        """Memories that were stored, or were meant to be."""
        ends = [
            to_unix_microseconds(prepared.memory.expires_at)
            for batch in batches
            for prepared in batch
            if prepared.memory.expires_at is not None
        ]
        if ends:
            with self._guard:
                self._earliest = min(self._earliest, *ends)

    def refresh(self) -> None:
        """Ask the file."""
        with self._guard, self._database.reading() as connection:
            row = connection.execute(
                "SELECT min(expires_at) FROM memories WHERE expires_at IS NOT NULL"
            ).fetchone()
            self._earliest = NEVER if row[0] is None else int(row[0])
