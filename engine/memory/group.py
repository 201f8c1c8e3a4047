"""Writes that share a transaction: one wait for the disk serves all of them, and a bad one fails alone."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from precall.engine.memory import reading
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.outcomes import WriteOutcome
from precall.engine.memory.prepared import PreparedMemory, check_batch
from precall.engine.memory.requests import Request
from precall.engine.memory.rows import DamagedRow
from precall.engine.memory.turns import Turns
from precall.engine.memory.writing import BatchWriter


@dataclass(frozen=True, slots=True)
class AskedWrite:
    """What one caller asks to be stored, whole or not at all; the fields are `TenantStore.write`'s."""

    batch: Sequence[PreparedMemory]
    request_id: str | None = None
    branch: Rung | None = None


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Writes in the order in which they take effect, each under a version of its own."""

    writes: Sequence[AskedWrite]
    ladder: Ladder
    dimension: int

    def write(self, connection: sqlite3.Connection, *, now: int) -> list[WriteOutcome | Exception]:
        """What became of each, as if they had come one after the other; ``now``: Unix microseconds.

        Call it inside a transaction. What SQLite itself refuses, and DamagedRow, is raised, and said of no
        single write.
        """
        results: list[WriteOutcome | Exception] = []
        turns = Turns(connection, dimension=self.dimension)
        before = version = reading.read_version(connection)
        for asked in self.writes:
            connection.execute("SAVEPOINT asked")
            try:
                outcome = self._write_one(connection, turns, asked, version + 1, now)
                version = max(version, outcome.version)
                results.append(outcome)
            except (sqlite3.Error, DamagedRow):
                raise
            except Exception as error:
                connection.execute("ROLLBACK TO asked")
                turns = Turns(connection, dimension=self.dimension)
                results.append(error)
            connection.execute("RELEASE asked")
        if version > before:
            connection.execute("UPDATE meta SET version = ?", (version,))
        return results

    def _write_one(
        self, connection: sqlite3.Connection, turns: Turns, asked: AskedWrite, version: int, now: int
    ) -> WriteOutcome:
        check_batch(asked.batch, ladder=self.ladder, dimension=self.dimension)
        request = Request.of_write(asked.request_id, [prepared.memory for prepared in asked.batch])
        if request and (stored := request.stored_outcome(connection)) is not None:
            return WriteOutcome.replay(stored)
        outcome = BatchWriter(connection, version, now, turns, asked.branch).write(asked.batch)
        if request:
            request.store(connection, outcome.to_json(), now=now)
        return outcome
