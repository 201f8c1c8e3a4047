"""What a tenant's file says of its migration: the row of ``migration``."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Final, Self
from zlib import crc32

from precall.engine.memory.migration import MigrationState, StoredModel
from precall.engine.memory.rows import DamagedRow, Row

RECORD_COLUMNS: Final = (
    "state, serial, from_fingerprint, from_dimension, to_fingerprint, to_dimension, last, settled, "
    "overlap_at_10, compared_queries, checksum"
)


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """``serial`` counts a tenant's migrations, from 1. ``last`` is the highest number of a row when finishing
    began, and ``settled`` how far it has come: while it is FINISHING, of the rows whose number is
    ``settled < number <= last`` the new vector still stands beside the memory, of all others in its row.
    """

    state: MigrationState
    serial: int
    old: StoredModel
    new: StoredModel
    last: int = 0
    settled: int = 0
    overlap_at_10: float | None = None
    compared_queries: int = 0

    @classmethod
    def of_row(cls, row: Row) -> Self | None:
        """``row``: `RECORD_COLUMNS`. None when there has been no migration. Raises DamagedRow."""
        state, serial, old, old_dimension, new, new_dimension, *rest = row[:-1]
        try:
            if _checksum(row[:-1]) != row[-1]:
                raise ValueError("the checksum is that of another one")
            if state is None:
                return None
            models = (StoredModel(old, old_dimension), StoredModel(new, new_dimension))
            return cls(MigrationState(state), serial, *models, *rest)
        except (ValueError, TypeError) as error:
            raise DamagedRow(f"its migration is not what was noted: {error}") from error

    @property
    def columns(self) -> tuple[object, ...]:
        """As `RECORD_COLUMNS`."""
        said = (
            self.state.value,
            self.serial,
            self.old.fingerprint,
            self.old.dimension,
            self.new.fingerprint,
            self.new.dimension,
            self.last,
            self.settled,
            self.overlap_at_10,
            self.compared_queries,
        )
        return (*said, _checksum(said))

    def store(self, connection: sqlite3.Connection) -> None:
        """Put it in the place of the one in the file."""
        connection.execute(
            f"UPDATE migration SET ({RECORD_COLUMNS}) = ({', '.join('?' * len(self.columns))})", self.columns
        )

    @staticmethod
    def note_none(connection: sqlite3.Connection) -> None:
        """In a new file: the row stands there from the beginning, so that one that is lost is missed."""
        said = (None, 0, "", 0, "", 0, 0, 0, None, 0)
        connection.execute(
            f"INSERT INTO migration (row, {RECORD_COLUMNS}) VALUES (1, {', '.join('?' * (len(said) + 1))})",
            (*said, _checksum(said)),
        )


def _checksum(said: Row) -> int:
    return crc32(json.dumps(tuple(said)).encode())
