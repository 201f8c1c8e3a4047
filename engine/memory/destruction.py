"""A destruction as one durable step, on a disk that may be full, with nothing left to read of it."""

import sqlite3
from collections.abc import Callable

from precall.engine.errors import StorageUnavailable
from precall.engine.memory import destroying, reading
from precall.engine.memory.database import Database
from precall.engine.memory.destroying import NamedMemories
from precall.engine.memory.erasure import Erasure
from precall.engine.memory.mark import VersionMark
from precall.engine.memory.outcomes import DeleteOutcome
from precall.engine.memory.requests import Request
from precall.engine.memory.reserve import Reserve

NamedBy = Callable[[sqlite3.Connection], NamedMemories]


class Destruction:
    """How one tenant's memories are destroyed, whoever named them. Thread-safe."""

    def __init__(self, database: Database, erasure: Erasure, mark: VersionMark, reserve: Reserve) -> None:
        self._database = database
        self._erasure = erasure
        self._mark = mark
        self._reserve = reserve

    def destroy(self, request: Request | None, named_by: NamedBy, *, now: int) -> DeleteOutcome:
        """The version stays if nothing was there to destroy. ``now``: Unix microseconds."""
        try:
            outcome = self._destroy_once(request, named_by, now)
        except StorageUnavailable:
            outcome = self._destroy_in_reserve(request, named_by, now)
        if outcome.deleted and not outcome.replayed:
            self._mark.note(outcome.version)
            self._erasure.ask()
        self._reserve.fill()
        return outcome

    def _destroy_in_reserve(self, request: Request | None, named_by: NamedBy, now: int) -> DeleteOutcome:
        """A second try, in the room of the reserve and of the log, which refused writes leave long."""
        self._reserve.release()
        self._erasure.try_now()
        try:
            return self._destroy_once(request, named_by, now)
        except StorageUnavailable:  # too much at once: keep the room for a smaller destruction
            self._erasure.try_now()
            self._reserve.fill()
            raise

    def _destroy_once(self, request: Request | None, named_by: NamedBy, now: int) -> DeleteOutcome:
        with self._database.writing() as connection:
            if request and (stored := request.stored_outcome(connection)) is not None:
                return DeleteOutcome.replay(stored)
            named = named_by(connection)
            destroyed = destroying.destroy(connection, named.numbers)
            version = reading.read_version(connection)
            if destroyed.deleted:
                version += 1
                connection.execute("UPDATE meta SET version = ?", (version,))
            outcome = DeleteOutcome(
                version, destroyed.deleted, named.missing_ids, reweighed=destroyed.reweighed
            )
            if request:
                request.store(connection, outcome.to_json(), now=now)
        return outcome
