"""Writes that share a transaction: one wait for the disk serves all of them, and a bad one fails alone."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from precall.engine.errors import ModelChanged
from precall.engine.memory import reading
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.outcomes import WriteOutcome
from precall.engine.memory.placement import Placement
from precall.engine.memory.prepared import PreparedMemory, check_batch
from precall.engine.memory.requests import Request
from precall.engine.memory.rows import DamagedRow
from precall.engine.memory.rung_numbers import RungNumbers
from precall.engine.memory.turns import Turns
from precall.engine.memory.writing import BatchWriter


@dataclass(frozen=True, slots=True)
class AskedWrite:
    """What one caller asks to be stored, whole or not at all; the fields are `TenantStore.write`'s.

    ``serving``: the fingerprint of the model that made the vectors; when another one serves the tenant by the
    time of the commit, this write fails with ModelChanged. ``other``: of the model that made the other ones;
    when `TenantStore.other` is another model by then, they are dropped where they may be missing, and where
    they may not the write fails likewise. None: not checked.
    """

    batch: Sequence[PreparedMemory]
    request_id: str | None = None
    branch: Rung | None = None
    serving: str | None = None
    other: str | None = None


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Writes in the order in which they take effect, each under a version of its own."""

    writes: Sequence[AskedWrite]
    ladder: Ladder

    def write(self, connection: sqlite3.Connection, *, now: int) -> Sequence[WriteOutcome | Exception]:
        """What became of each, as if they had come one after the other; ``now``: Unix microseconds.

        Call it inside a transaction. What SQLite itself refuses, and DamagedRow, is raised, and said of no
        single write.
        """
        placement = Placement.read(connection)
        before = reading.read_version(connection)
        connection.execute("SAVEPOINT group_of_writes")
        try:
            results = self._write_each(connection, placement, before, now, apart=False)
        except (sqlite3.Error, DamagedRow):
            raise
        except Exception as error:  # of one of them: it must fail alone, and leave nothing behind
            connection.execute("ROLLBACK TO group_of_writes")
            results = [error]
            if len(self.writes) > 1:
                results = self._write_each(connection, placement, before, now, apart=True)
        connection.execute("RELEASE group_of_writes")
        version = max([before, *(each.version for each in results if isinstance(each, WriteOutcome))])
        if version > before:
            connection.execute("UPDATE meta SET version = ?", (version,))
        return results

    def _write_each(
        self, connection: sqlite3.Connection, placement: Placement, version: int, now: int, *, apart: bool
    ) -> list[WriteOutcome | Exception]:
        """``apart``: each that fails is undone and answers with its error; otherwise the first error is
        raised: savepoints cost a sixth of the time that SQLite takes for a small write, and most groups need
        none.
        """
        results: list[WriteOutcome | Exception] = []
        rungs, turns = RungNumbers(connection), Turns(connection, placement)
        for asked in self.writes:
            if apart:
                connection.execute("SAVEPOINT asked")
            try:
                outcome = self._write_one(connection, rungs, turns, asked, version + 1, now)
                version = max(version, outcome.version)
                results.append(outcome)
            except (sqlite3.Error, DamagedRow):
                raise
            except Exception as error:
                if not apart:
                    raise
                connection.execute("ROLLBACK TO asked")
                rungs, turns = RungNumbers(connection), Turns(connection, placement)
                results.append(error)
            if apart:
                connection.execute("RELEASE asked")
        return results

    def _write_one(
        self,
        connection: sqlite3.Connection,
        rungs: RungNumbers,
        turns: Turns,
        asked: AskedWrite,
        version: int,
        now: int,
    ) -> WriteOutcome:
        batch = self._checked(asked, turns.placement)
        request = None
        if asked.request_id is not None:
            request = Request.of_write(asked.request_id, [prepared.memory for prepared in asked.batch])
        if request and (stored := request.stored_outcome(connection)) is not None:
            return WriteOutcome.replay(stored)
        outcome = BatchWriter(connection, version, now, rungs, turns, asked.branch).write(batch)
        if request:
            request.store(connection, outcome.to_json(), now=now)
        return outcome

    def _checked(self, asked: AskedWrite, placement: Placement) -> Sequence[PreparedMemory]:
        """The batch with vectors of the tenant's models alone.

        Raises ModelChanged, and what `check_batch` raises.
        """
        serving, other = placement.serving, placement.other
        if asked.serving not in (None, serving.fingerprint):
            raise ModelChanged(f"model {serving.fingerprint} serves the tenant now, not {asked.serving}")
        batch = asked.batch
        if other is not None and asked.other not in (None, other.fingerprint):
            if placement.other_is_needed:
                raise ModelChanged(f"{other.fingerprint} is the tenant's other model now, not {asked.other}")
            batch = [replace(prepared, other_vector=None) for prepared in batch]
        check_batch(
            batch,
            ladder=self.ladder,
            dimension=serving.dimension,
            other_dimension=None if other is None else other.dimension,
            other_is_needed=placement.other_is_needed,
        )
        return batch
