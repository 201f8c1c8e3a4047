"""The durable memories of one tenant."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Self

from precall.engine.errors import InvalidInput
from precall.engine.memory import destroying, integrity, reading
from precall.engine.memory.backup import Backup, back_up
from precall.engine.memory.creation import create_database
from precall.engine.memory.database import Database
from precall.engine.memory.destruction import Destruction
from precall.engine.memory.erasure import Erasure
from precall.engine.memory.expiry import Expiry
from precall.engine.memory.group import AskedWrite, WriteGroup
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.mark import VersionMark
from precall.engine.memory.memory import Memory, NewMemory, Source
from precall.engine.memory.migratable_store import MigratableStore
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.reading import FoundMemories, History, MemoryPage, RungCount
from precall.engine.memory.renewal import renew
from precall.engine.memory.requests import Request
from precall.engine.memory.reserve import NO_RESERVE, Reserve
from precall.engine.memory.tenant_settings import TenantSettings
from precall.engine.memory.view import EVER, View


class TenantStore(MigratableStore):
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
        """Use `create` or `open`. Raises TenantQuarantined."""
        super().__init__(database, clock)
        with database.reading() as connection:
            settings = TenantSettings.read(connection, name=database.name)
            version = reading.read_version(connection)
            reading.check_rungs(connection)
        renew(database, settings)
        self.tenant_id = settings.tenant_id
        self.ladder = settings.ladder
        self._mark = VersionMark(database.path)
        self._mark.check(version, name=database.name)
        self._erasure = Erasure(database)
        self._destruction = Destruction(database, self._erasure, self._mark, reserve)
        self._expiry = Expiry(database)

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
        """``clock``: Unix seconds. ``reserve``: room for destructions on a full disk. It reads no memories,
        unless `renew` must. Raises TenantNotFound, TenantQuarantined, or ConfigurationError (schema version).
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
        """Whether bytes of what was deleted may still stand in the log; each later change tries again."""
        return self._erasure.is_pending

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
        (result,) = self.write_group([AskedWrite(batch, request_id, branch)])
        if isinstance(result, Exception):
            raise result
        return result

    def write_group(self, writes: Sequence[AskedWrite]) -> Sequence[WriteOutcome | Exception]:
        """What became of each of several writes, in order: that which `write` returns or raises.

        They share a transaction, and so one wait for the disk, but neither their version nor their fate.
        """
        try:
            with self._database.writing() as connection:
                group = WriteGroup(writes, self.ladder)
                results: Sequence[WriteOutcome | Exception] = group.write(connection, now=self._now())
        except Exception as error:
            # One of them may ask too much of the disk, or find damage: the others must not pay for it.
            results = [error] if len(writes) == 1 else [self.write_group([each])[0] for each in writes]
        newest = max((each.version for each in results if isinstance(each, WriteOutcome)), default=0)
        self._mark.note(newest)
        self._expiry.note(asked.batch for asked in writes)
        if self._erasure.is_pending:
            self._erasure.try_now()
        return results

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
        return self._destruction.destroy(
            request,
            lambda connection: destroying.named_by_ids(connection, ids, visible_from),
            now=self._now(),
        )

    def forget_scope(self, rung: Rung, *, request_id: str | None = None) -> DeleteOutcome:
        """Destroy everything on a rung and below it, and what was derived from that, on any rung."""
        request = Request.of_destruction(request_id, "forget_scope", rung.values)
        return self._destruction.destroy(
            request, lambda connection: destroying.named_by_scope(connection, rung), now=self._now()
        )

    def forget_source(
        self, source: Source, *, visible_from: Rung | None, request_id: str | None = None
    ) -> DeleteOutcome:
        """Destroy what matches every given field of a source, as `delete` would. Raises InvalidInput if the
        source says too little.
        """
        path = visible_from and visible_from.values
        request = Request.of_destruction(request_id, "forget_source", [asdict(source), path])
        return self._destruction.destroy(
            request,
            lambda connection: destroying.named_by_source(connection, source, visible_from),
            now=self._now(),
        )

    @property
    def expiry_is_due(self) -> bool:
        """Whether something may have expired that stands in the file yet; asks no disk."""
        return self._expiry.earliest <= self._now()

    def destroy_expired(self, *, limit: int) -> DeleteOutcome:
        """Destroy up to ``limit`` memories whose time is over, as `delete` would. See `expiry_is_due`."""
        now = self._now()
        outcome = self._destruction.destroy(
            None, lambda connection: destroying.named_by_expiry(connection, now, limit), now=now
        )
        self._expiry.refresh()
        return outcome

    def get(
        self, ids: Iterable[str], *, visible_from: Rung | None, include_expired: bool = False
    ) -> FoundMemories:
        """Memories by id, history included, as seen from a rung (None: from anywhere)."""
        view = View(EVER if include_expired else self._now())
        with self._database.reading() as connection:
            return reading.find(connection, ids, visible_from, view)

    def memory_by_ids(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Id -> memory for those that exist. It asks nobody's leave: for ids that came out of an index."""
        found = self.get(ids, visible_from=None, include_expired=True)
        return {memory.id: memory for memory in found.memories}

    def list_rung(
        self,
        rung: Rung,
        *,
        limit: int,
        after_token: str = "",
        include_history: bool = False,
        matching: Callable[[Memory], bool] | None = None,
        as_of: datetime | None = None,
    ) -> MemoryPage:
        """A page of exactly this rung, oldest arrival first; ``matching`` filters without making pages short.

        Pages stay in step while others write: nothing comes twice, nothing that stays is left out.
        ``as_of``: the rung as it stood at that moment, less what was destroyed since.
        """
        view = View(self._now(), as_of, include_history)
        with self._database.reading() as connection:
            return reading.page(
                connection, rung, view, limit=limit, after_token=after_token, matching=matching
            )

    def history(self, rung: Rung, key: str) -> History:
        """Every statement under a key of a rung, the newest event first. Raises InvalidInput for no key."""
        with self._database.reading() as connection:
            return reading.read_history(connection, rung, key, View(self._now(), include_history=True))

    def counts(self) -> tuple[RungCount, ...]:
        """How many memories each rung holds, ordered by rung."""
        with self._database.reading() as connection:
            return reading.count_by_rung(connection)

    def rungs(self) -> tuple[Rung, ...]:
        """The rungs that hold memories, in order."""
        with self._database.reading() as connection:
            return reading.list_rungs(connection)

    def checkpoint(self) -> bool:
        """Fold the log into the file, waiting for nobody; True if it is empty now."""
        return self._erasure.checkpoint()

    def back_up(self, folder: Path) -> Backup:
        """Copy what stands now into a folder, while others write. Raises what `backup.back_up` raises."""
        return back_up(self._database.path, folder, tenant_id=self.tenant_id, moment=self._clock())

    def check_integrity(self) -> None:
        """Read the whole file. Raises TenantQuarantined with the first fault that is found."""
        with self._database.reading() as connection:
            integrity.check_integrity(connection, name=self.tenant_id)

    def close(self) -> None:
        """Idempotent; later calls raise StorageUnavailable."""
        self._database.close()
