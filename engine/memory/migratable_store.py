"""The part of a tenant's store that has to do with the model its vectors are of, and with changing it."""

import json
import math
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from precall.engine.errors import InvalidInput, MigrationRefused, PrecallError
from precall.engine.memory import reading
from precall.engine.memory.block import MemoryBlock
from precall.engine.memory.database import Database
from precall.engine.memory.decoded_memory import decode_memory
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.migration import Migration, MigrationState, StoredModel
from precall.engine.memory.migration_record import MigrationRecord
from precall.engine.memory.next_vectors import NextVector, Unembedded, store_next_vectors
from precall.engine.memory.placement import Placement
from precall.engine.memory.prepared import check_vector
from precall.engine.memory.rows import MEMORY_COLUMNS
from precall.engine.memory.settling import settle
from precall.engine.memory.view import View

_ADVICE: Final[dict[MigrationState, str]] = {
    MigrationState.BACKFILLING: "it is being backfilled: switch when it is ready, or roll it back",
    MigrationState.SWITCHED: "it is switched: finish it or roll it back",
    MigrationState.FINISHING: "it is being finished, and has no way back: wait until that is done",
    MigrationState.FINISHED: "it is finished: start a new one to change the model again",
    MigrationState.ROLLED_BACK: "it was rolled back: start a new one to change the model",
}

_OVER: Final = (MigrationState.FINISHED, MigrationState.ROLLED_BACK)
"""Where a new one may be started."""

_LACKING: Final = (
    f"SELECT m.number, {MEMORY_COLUMNS} FROM memories m JOIN rungs r ON r.number = m.rung "
    "WHERE m.number >= ? AND NOT EXISTS (SELECT 1 FROM next_vectors n WHERE n.number = m.number) "
    "AND m.number NOT IN (SELECT value FROM json_each(?)) ORDER BY m.number LIMIT ?"
)
_COUNTS: Final = "SELECT (SELECT count(*) FROM next_vectors), (SELECT count(*) FROM memories)"


class MigratableStore:
    """A base of `TenantStore`, which says what holds for every method.

    The states and their steps are `MigrationState`'s: start, then add vectors until nothing is `lacking`,
    switch, and then either finish or roll back; the last two are `settle_migration` away from their end. Each
    step is one durable transaction and changes no memory, so the tenant's version stays. A step from a state
    that does not allow it raises MigrationRefused.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._stepping = threading.Lock()  # so that what is remembered here follows the file in its order
        with database.reading() as connection:
            self._placement = Placement.read(connection)
        self._complete = (0, 0)
        """The serial of a migration, and the number of a row below which no memory lacks its new vector."""

    @property
    def serving(self) -> StoredModel:
        """The model that answers searches; it changes when a step returns. Asks no disk, like `other`."""
        return self._placement.serving

    @property
    def other(self) -> StoredModel | None:
        """The second model whose vectors are stored with each write: the new one while it is BACKFILLING (a
        write may lack it), the old one while it is SWITCHED (a write must have it), else None.
        """
        return self._placement.other

    @property
    def model_fingerprint(self) -> str:
        """Of the serving model."""
        return self.serving.fingerprint

    @property
    def dimension(self) -> int:
        """Of the serving model's vectors."""
        return self.serving.dimension

    @property
    def migration_state(self) -> MigrationState | None:
        """Of `migration`, without asking the disk."""
        return self._placement.state

    @property
    def migration(self) -> Migration | None:
        """The newest one, however long it has been over; None if there was none. It counts rows."""
        with self._database.reading() as connection:
            record = Placement.read(connection).record
            return None if record is None else _described(connection, record)

    def load_rung(self, rung: Rung, fingerprint: str | None = None) -> Generator[IndexedMemory, None, None]:
        """The current memories of a rung in order of arrival, in the state of the first ``next``. Close the
        iterator if you leave it early: it holds a reader.

        ``fingerprint``: of the model whose vectors are wanted, the serving or the other one (None: that which
        serves). A memory that it has made no vector of yet is left out. Raises FingerprintMismatch.
        """
        with self._database.reading() as connection:
            vectors = Placement.read(connection).view(fingerprint)
            yield from reading.stream_current(connection, rung, vectors)

    def load_blocks(self, rung: Rung, fingerprint: str | None = None) -> Generator[MemoryBlock, None, None]:
        """What `load_rung` gives and raises, for an index: verified likewise, and not decoded."""
        with self._database.reading() as connection:
            vectors = Placement.read(connection).view(fingerprint)
            yield from reading.stream_blocks(connection, rung, vectors)

    def load_rung_as_of(
        self, rung: Rung, moment: datetime, fingerprint: str | None = None
    ) -> Generator[IndexedMemory, None, None]:
        """Like `load_rung`, the memories that were current at a moment, as they stood then, weights apart. A
        memory counts from when it was stored; what was destroyed or has expired since never comes back.
        """
        with self._database.reading() as connection:
            vectors = Placement.read(connection).view(fingerprint)
            yield from reading.stream_as_of(connection, rung, View(self._now(), moment), vectors)

    def start_migration(self, fingerprint: str, dimension: int) -> None:
        """Begin to store vectors of this model beside those that serve. One that was begun goes on.

        Refused while vectors of one that was rolled back are left: `settle_migration` removes them. Raises
        InvalidInput for what names no model.
        """
        if not fingerprint or dimension < 1:
            raise InvalidInput("a model has a fingerprint, and a dimension of at least 1")
        new = StoredModel(fingerprint, dimension)

        def start(connection: sqlite3.Connection, placement: Placement) -> MigrationRecord:
            record = placement.record
            if record is not None and record.state is MigrationState.BACKFILLING and record.new == new:
                return record
            if record is not None and record.state not in _OVER:
                raise self._refusal("start", _ADVICE[record.state])
            if new.fingerprint == placement.serving.fingerprint:
                served = f"the tenant is served by model {new.fingerprint} already: name another one"
                raise self._refusal("start", served)
            if connection.execute("SELECT EXISTS (SELECT 1 FROM next_vectors)").fetchone()[0]:
                raise self._refusal("start", "vectors of the last one are still being removed: try again")
            serial = 1 if record is None else record.serial + 1
            return MigrationRecord(MigrationState.BACKFILLING, serial, placement.model, new)

        self._step(start)

    def lacking(self, limit: int, *, but: Collection[int] = ()) -> Sequence[Unembedded]:
        """The first memories that the new model has made no vector of, history included, in order of arrival;
        ``but``: rows to pass over.

        Raises InvalidInput for a limit below 1.
        """
        if limit < 1:
            raise InvalidInput(f"at least 1 memory can be asked for, not {limit}")
        with self._database.reading() as connection:
            placement = Placement.read(connection)
            record = self._allowed(placement, "backfill", MigrationState.BACKFILLING)
            serial, first = self._complete
            if serial != record.serial:
                first = 0
            rows = connection.execute(_LACKING, (first, json.dumps(list(but)), limit)).fetchall()
            memories = [(row[0], decode_memory(row[1:])) for row in rows]
            found = [Unembedded(number, memory.id, memory.text) for number, memory in memories]
            if found and not but:
                first = found[0].number
            elif not but:
                first = connection.execute("SELECT ifnull(max(number), 0) + 1 FROM memories").fetchone()[0]
        self._complete = (record.serial, first)
        return found

    def add_next_vectors(self, vectors: Sequence[NextVector], *, fingerprint: str | None = None) -> None:
        """Store what the new model made of memories that were `lacking`, whole or not at all. A memory that
        is gone, or has a vector by now, is passed over.

        ``fingerprint``: of the model that made them; one that this migration does not lead to is refused.
        None: not checked. Raises InvalidVector, which names the position.
        """
        with self._database.writing() as connection:
            record = self._allowed(Placement.read(connection), "backfill", MigrationState.BACKFILLING)
            if fingerprint not in (None, record.new.fingerprint):
                raise self._refusal("backfill", f"it leads to model {record.new.fingerprint}")
            for position, each in enumerate(vectors):
                try:
                    check_vector(each.vector, record.new.dimension)
                except PrecallError as error:
                    raise error.at(position) from error
            store_next_vectors(connection, vectors)

    def note_comparison(self, overlap_at_10: float, queries: int) -> None:
        """How far both models' results agree: see `Migration`. Raises InvalidInput for what is no share."""
        if not (math.isfinite(overlap_at_10) and 0 <= overlap_at_10 <= 1 and queries >= 0):
            raise InvalidInput(f"{overlap_at_10} of {queries} queries is no share of results")

        def note(_: sqlite3.Connection, placement: Placement) -> MigrationRecord:
            record = self._allowed(placement, "compare", MigrationState.BACKFILLING, MigrationState.SWITCHED)
            return replace(record, overlap_at_10=float(overlap_at_10) + 0.0, compared_queries=queries)

        self._step(note)

    def switch_migration(self) -> None:
        """The new model serves. It must have a vector of every memory."""

        def switch(connection: sqlite3.Connection, placement: Placement) -> MigrationRecord:
            record = self._allowed(placement, "switch", MigrationState.BACKFILLING)
            described = _described(connection, record)
            if not described.ready:
                made = f"{described.done} of {described.total} memories have a vector of the new model"
                raise self._refusal("switch", f"{made}: see by its status what is missing, or roll it back")
            return replace(record, state=MigrationState.SWITCHED)

        self._step(switch)

    def roll_back_migration(self) -> None:
        """The old model serves, with everything that was written since."""

        def roll_back(_: sqlite3.Connection, placement: Placement) -> MigrationRecord:
            record = self._allowed(
                placement, "roll back", MigrationState.BACKFILLING, MigrationState.SWITCHED
            )
            return replace(record, state=MigrationState.ROLLED_BACK)

        self._step(roll_back)

    def finish_migration(self) -> None:
        """The new model serves for good: from now on nothing is stored of the old one."""

        def finish(connection: sqlite3.Connection, placement: Placement) -> MigrationRecord:
            record = self._allowed(placement, "finish", MigrationState.SWITCHED)
            last = connection.execute("SELECT ifnull(max(number), 0) FROM memories").fetchone()[0]
            return replace(record, state=MigrationState.FINISHING, last=last, settled=0)

        self._step(finish)

    def settle_migration(self, limit: int) -> bool:
        """After finishing: move up to ``limit`` new vectors into the place of the old ones, and end it when
        there are none left. After rolling back: remove up to ``limit`` new vectors. Writers wait meanwhile.

        True while there is more to do; False in every other state. Raises InvalidInput for a limit below 1.
        """
        if limit < 1:
            raise InvalidInput(f"at least 1 row can be settled, not {limit}")
        with self._stepping:
            with self._database.writing() as connection:
                placement = Placement.read(connection)
                settled = settle(connection, placement, limit=limit, name=self._database.name)
                if settled is None:
                    return False
                settled.record.store(connection)
                after = Placement.read(connection)
            self._placement = after
        return settled.more

    def _now(self) -> int:
        """Unix microseconds."""
        return int(self._clock() * 1_000_000)

    def _step(self, take: Callable[[sqlite3.Connection, Placement], MigrationRecord]) -> None:
        """``take`` answers with what the file is to say; it raises what keeps the step from being taken."""
        with self._stepping:
            with self._database.writing() as connection:
                take(connection, Placement.read(connection)).store(connection)
                after = Placement.read(connection)
            self._placement = after

    def _allowed(self, placement: Placement, step: str, *states: MigrationState) -> MigrationRecord:
        """Raises MigrationRefused unless there is a migration, in one of the states."""
        record = placement.record
        if record is None:
            raise MigrationRefused(
                f"tenant {self._database.name!r} cannot {step}: it has no migration, start one first"
            )
        if record.state not in states:
            raise self._refusal(step, _ADVICE[record.state])
        return record

    def _refusal(self, step: str, reason: str) -> MigrationRefused:
        return MigrationRefused(f"the migration of tenant {self._database.name!r} cannot {step}: {reason}")


def _described(connection: sqlite3.Connection, record: MigrationRecord) -> Migration:
    beside, total = connection.execute(_COUNTS).fetchone()
    is_settled = record.state in (MigrationState.FINISHING, MigrationState.FINISHED)
    return Migration(
        from_fingerprint=record.old.fingerprint,
        to_fingerprint=record.new.fingerprint,
        from_dimension=record.old.dimension,
        to_dimension=record.new.dimension,
        state=record.state,
        done=total - beside if is_settled else beside,
        total=total,
        overlap_at_10=record.overlap_at_10,
        compared_queries=record.compared_queries,
    )
