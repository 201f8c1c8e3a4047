"""The durable memories of one tenant."""

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Self

from precall.engine.errors import InvalidInput, StorageUnavailable, TenantQuarantined
from precall.engine.memory import destroying, integrity, reading
from precall.engine.memory.creation import create_database
from precall.engine.memory.database import Database
from precall.engine.memory.destroying import NamedMemories
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory, Memory, NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory, check_batch
from precall.engine.memory.reading import FoundMemories, History, MemoryPage, RungCount
from precall.engine.memory.requests import Request
from precall.engine.memory.reserve import NO_RESERVE, Reserve
from precall.engine.memory.writing import BatchWriter

_NamedBy = Callable[[sqlite3.Connection], NamedMemories]


class TenantStore:
    """One SQLite file: the truth about a tenant, of which every index is a copy.

    Synchronous; call it from worker threads, as many as you like. Writers take turns, readers never wait and
    see one consistent state each. Keep one store a file and process (`TenantRegistry` does).

    What returns is durable: `kill -9` or a power loss afterwards loses nothing of it. What raises has left
    nothing behind. Every method may raise StorageUnavailable (the disk refuses, or the store is closed) and
    TenantQuarantined (the file is damaged).
    """

    def __init__(
        self, database: Database, *, clock: Callable[[], float] = time.time, reserve: Reserve = NO_RESERVE
    ) -> None:
        """Use `create` or `open`. Raises TenantQuarantined for a file without readable settings."""
        self._database = database
        self._reserve = reserve
        self._clock = clock
        with database.reading() as connection:
            row = connection.execute(
                "SELECT tenant_id, levels, model_fingerprint, dimension FROM meta"
            ).fetchone()
        try:
            self.tenant_id = str(row[0])
            self.ladder = Ladder(tuple(json.loads(row[1])))
            self.model_fingerprint = str(row[2])
            self.dimension = int(row[3])
        except (TypeError, ValueError, InvalidInput) as error:
            raise TenantQuarantined(
                f"the settings of tenant {database.name!r} are damaged: restore it from a backup"
            ) from error
        self._erasure_is_pending = True
        self._try_to_erase()

    @classmethod
    def create(
        cls, path: Path, *, tenant_id: str, ladder: Ladder, model_fingerprint: str, dimension: int
    ) -> Self:
        """Make the file, whole or not at all, and open it. Raises AlreadyExists, InvalidInput."""
        create_database(
            path, tenant_id=tenant_id, ladder=ladder, model_fingerprint=model_fingerprint, dimension=dimension
        )
        return cls.open(path)

    @classmethod
    def open(
        cls, path: Path, *, clock: Callable[[], float] = time.time, reserve: Reserve = NO_RESERVE
    ) -> Self:
        """``clock``: Unix seconds. ``reserve``: room for destructions on a full disk. The time it takes does
        not depend on the number of memories. Raises TenantNotFound, TenantQuarantined, or ConfigurationError
        for a file of another schema version.
        """
        database = Database(path)
        try:
            return cls(database, clock=clock, reserve=reserve)
        except BaseException:
            database.close()
            raise

    @property
    def version(self) -> int:
        """The tenant's commit counter: 0 for a new tenant."""
        with self._database.reading() as connection:
            return reading.read_version(connection)

    @property
    def lease_horizon(self) -> float:
        """Unix seconds: until then a client of an earlier server process may still serve cached items."""
        with self._database.reading() as connection:
            return float(connection.execute("SELECT lease_horizon FROM meta").fetchone()[0])

    @lease_horizon.setter
    def lease_horizon(self, moment: float) -> None:
        """Durable when it returns. Raises InvalidInput for NaN or infinity."""
        if not math.isfinite(moment):
            raise InvalidInput(f"the lease horizon is a moment in Unix seconds, not {moment}")
        with self._database.writing() as connection:
            connection.execute("UPDATE meta SET lease_horizon = ?", (moment,))

    @property
    def erasure_is_pending(self) -> bool:
        """True while bytes of deleted memories may still stand in the write-ahead log because a reader needed
        it or the disk failed; every later write, delete and `checkpoint` tries to clear it again.
        """
        return self._erasure_is_pending

    @property
    def closed(self) -> bool:
        return self._database.closed

    def write(
        self, batch: Sequence[PreparedMemory], *, request_id: str | None = None, branch: Rung | None = None
    ) -> WriteOutcome:
        """Store a batch, whole or not at all, under one new version.

        A memory with a key supersedes the rung's current one under that key if its event time is the same or
        later; otherwise it is filed as history at once. Inside a batch the order of the batch counts. A
        request that was answered before changes nothing and gets its outcome again.

        ``branch``: the writer knows this rung, those above and those below it, and no memory elsewhere.

        Raises AlreadyExists (an id is taken), NotFound (an origin in ``source.memory_ids`` is neither stored
        where the writer knows it nor earlier in the batch), InvalidInput, InvalidScope, InvalidVector; all
        but a reused ``request_id`` name the position, in ``metadata["position"]`` too.
        """
        check_batch(batch, ladder=self.ladder, dimension=self.dimension)
        request = Request.of_write(request_id, [prepared.memory for prepared in batch])
        with self._database.writing() as connection:
            if request and (stored := request.stored_outcome(connection)) is not None:
                return WriteOutcome.replay(stored)
            now = int(self._clock() * 1_000_000)
            version = reading.read_version(connection) + 1
            outcome = BatchWriter(connection, version, now, self.dimension, branch).write(batch)
            if request:
                request.store(connection, outcome.to_json(), now=now)
        if self._erasure_is_pending:
            self._try_to_erase()
        return outcome

    def replayed_write(self, memories: Sequence[NewMemory], *, request_id: str) -> WriteOutcome | None:
        """The outcome of an earlier `write` of this request, if there was one: ask before embedding.

        Raises InvalidInput if the id was used for something else.
        """
        request = Request.of_write(request_id, memories)
        with self._database.reading() as connection:
            stored = request.stored_outcome(connection) if request else None
        return None if stored is None else WriteOutcome.replay(stored)

    def delete(
        self, ids: Sequence[str], *, visible_from: Rung | None, request_id: str | None = None
    ) -> DeleteOutcome:
        """Destroy memories that can be seen from a rung (None: from anywhere), and what hangs on them: the
        history of a key whose current statement goes, and what was derived from any of them, on any rung.
        """
        path = visible_from and visible_from.values
        request = Request.of_destruction(request_id, "delete", [sorted(set(ids)), path])
        return self._destroy(
            request, lambda connection: destroying.named_by_ids(connection, ids, visible_from)
        )

    def forget_scope(self, rung: Rung, *, request_id: str | None = None) -> DeleteOutcome:
        """Destroy everything on a rung and below it, and what was derived from that, on any rung."""
        request = Request.of_destruction(request_id, "forget_scope", rung.values)
        return self._destroy(request, lambda connection: destroying.named_by_scope(connection, rung))

    def forget_source(
        self, source: Source, *, visible_from: Rung | None, request_id: str | None = None
    ) -> DeleteOutcome:
        """Destroy what matches every given field of a source and can be seen from a rung (None: from
        anywhere), and what hangs on it as in `delete`. Raises InvalidInput if the source says too little.
        """
        path = visible_from and visible_from.values
        request = Request.of_destruction(request_id, "forget_source", [asdict(source), path])
        return self._destroy(
            request, lambda connection: destroying.named_by_source(connection, source, visible_from)
        )

    def get(self, ids: Iterable[str], *, visible_from: Rung | None) -> FoundMemories:
        """Memories by id, history included, as seen from a rung (None: from anywhere)."""
        with self._database.reading() as connection:
            return reading.find(connection, ids, visible_from)

    def memory_by_ids(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Id -> memory for those that exist. It asks nobody's leave: for ids that came out of an index."""
        return {memory.id: memory for memory in self.get(ids, visible_from=None).memories}

    def list_rung(
        self,
        rung: Rung,
        *,
        limit: int,
        after_token: str = "",
        include_history: bool = False,
        matching: Callable[[Memory], bool] | None = None,
    ) -> MemoryPage:
        """A page of exactly this rung, oldest arrival first; ``matching`` filters without making pages short.

        Pages stay in step while others write: nothing comes twice, nothing that stays is left out.
        """
        with self._database.reading() as connection:
            return reading.page(
                connection,
                rung,
                limit=limit,
                after_token=after_token,
                include_history=include_history,
                matching=matching,
            )

    def history(self, rung: Rung, key: str) -> History:
        """Every statement under a key of a rung, the newest event first. Raises InvalidInput for no key."""
        with self._database.reading() as connection:
            return reading.read_history(connection, rung, key)

    def load_rung(self, rung: Rung) -> Iterator[IndexedMemory]:
        """The current memories of a rung in order of arrival, streamed from one consistent state.

        The state is that of the first ``next``. Close the iterator if you leave it early: it holds a reader.
        """
        with self._database.reading() as connection:
            yield from reading.stream_current(connection, rung, dimension=self.dimension)

    def counts(self) -> tuple[RungCount, ...]:
        """How many memories each rung holds, ordered by rung."""
        with self._database.reading() as connection:
            return reading.count_by_rung(connection)

    def rungs(self) -> tuple[Rung, ...]:
        """The rungs that hold memories, in order."""
        with self._database.reading() as connection:
            return reading.list_rungs(connection)

    def checkpoint(self) -> bool:
        """Fold the write-ahead log into the file, waiting for nobody; True if it is empty now."""
        done = self._database.checkpoint()
        if done:
            self._erasure_is_pending = False
        return done

    def check_integrity(self) -> None:
        """Read the whole file. Raises TenantQuarantined with the first fault that is found."""
        with self._database.reading() as connection:
            integrity.check_integrity(connection, name=self.tenant_id, dimension=self.dimension)

    def close(self) -> None:
        """Idempotent; later calls raise StorageUnavailable."""
        self._database.close()

    def _destroy(self, request: Request | None, named_by: _NamedBy) -> DeleteOutcome:
        """One destruction: the version stays if nothing was there to destroy."""
        try:
            outcome = self._destroy_once(request, named_by)
        except StorageUnavailable:
            outcome = self._destroy_in_reserve(request, named_by)
        if outcome.deleted and not outcome.replayed:
            self._erasure_is_pending = True
            self._try_to_erase()
        self._reserve.fill()
        return outcome

    def _destroy_in_reserve(self, request: Request | None, named_by: _NamedBy) -> DeleteOutcome:
        """A second try, in the room of the reserve and of the log, which refused writes leave long."""
        self._reserve.release()
        self._try_to_erase()
        try:
            return self._destroy_once(request, named_by)
        except StorageUnavailable:  # too much at once: keep the room for a smaller destruction
            self._try_to_erase()
            self._reserve.fill()
            raise

    def _destroy_once(self, request: Request | None, named_by: _NamedBy) -> DeleteOutcome:
        with self._database.writing() as connection:
            if request and (stored := request.stored_outcome(connection)) is not None:
                return DeleteOutcome.replay(stored)
            named = named_by(connection)
            deleted = destroying.destroy(connection, named.numbers)
            version = reading.read_version(connection)
            if deleted:
                version += 1
                connection.execute("UPDATE meta SET version = ?", (version,))
            outcome = DeleteOutcome(version, deleted, named.missing_ids)
            if request:
                request.store(connection, outcome.to_json(), now=int(self._clock() * 1_000_000))
        return outcome

    def _try_to_erase(self) -> None:
        """The transaction before is durable: a disk that refuses now must not make it look failed."""
        with suppress(StorageUnavailable):
            self.checkpoint()
