"""Storing a batch of memories inside one transaction, superseding by key and event time."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from precall.engine.errors import AlreadyExists, NotFound
from precall.engine.memory.encoded_memory import as_reloaded, encode_memory
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, MemoryState, to_unix_microseconds
from precall.engine.memory.next_vectors import NextVector, store_next_vectors
from precall.engine.memory.outcomes import RemovedMemory, WriteOutcome, WrittenMemory
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.rows import CURRENT, SUPERSEDED, decode_rung, digest, fate_checksum
from precall.engine.memory.rung_numbers import RungNumbers
from precall.engine.memory.turns import TurnPlace, Turns
from precall.scoring.keyword import document_impacts

_COLUMNS = (
    "id", "rung", "state", "kind", "pinned", "confidence", "importance", "event_time", "said_time",
    "valid_from", "valid_until", "expires_at", "created_at", "created_version", "superseded_version",
    "superseded_at", "fate_checksum", "tokens_given", "tokens_used", "key_digest", "conversation_digest",
    "uri_digest", "vector", "ballast", "text", "key", "conversation_id", "turn_id", "uri", "derived_from",
    "questions", "metadata", "said_checksum", "impact_terms", "impact_weights", "indexed_checksum",
)  # fmt: skip
_INSERT = (
    f"INSERT INTO memories ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    "ON CONFLICT (id) DO NOTHING"
)
_in_order = itemgetter(*_COLUMNS)


@dataclass(slots=True)
class BatchWriter:
    """One batch on its way into the file; made for one transaction and then dropped."""

    connection: sqlite3.Connection
    version: int
    now: int
    rungs: RungNumbers
    turns: Turns
    branch: Rung | None = None
    """Origins that do not stand in line with this rung are as good as missing; None: all of them count."""

    _states: dict[str, MemoryState] = field(default_factory=dict)
    _current: dict[str, IndexedMemory] = field(default_factory=dict)
    _removed: list[RemovedMemory] = field(default_factory=list)

    def write(self, batch: Sequence[PreparedMemory]) -> WriteOutcome:
        """Store the batch in its order, as if each memory had been written alone; the caller counts the
        version, and undoes what was stored when this raises.

        Raises AlreadyExists for an id that is taken and NotFound for an origin that does not exist: what was
        derived from a deleted memory must not outlive it by arriving late.
        """
        superseded_ids = [self._store(position, prepared) for position, prepared in enumerate(batch)]
        reweighed = {indexed.memory.id: indexed for indexed in self.turns.settle()}
        self._current |= {name: reweighed.pop(name) for name in self._current if name in reweighed}
        return WriteOutcome(
            version=self.version,
            written=tuple(
                WrittenMemory(prepared.memory.id, self._states[prepared.memory.id], superseded)
                for prepared, superseded in zip(batch, superseded_ids, strict=True)
            ),
            added=tuple(self._current.values()),
            removed=tuple(self._removed),
            reweighed=tuple(reweighed.values()),
        )

    def _store(self, position: int, prepared: PreparedMemory) -> tuple[str, ...]:
        """Insert one memory; the ids that it supersedes."""
        prepared = self.turns.placement.as_stored(prepared)
        memory = prepared.memory
        rung = self.rungs.number(memory.rung)
        standing = self._standing(rung, memory.key)
        event_time = to_unix_microseconds(memory.event_time)
        is_history = standing is not None and event_time < standing.event_time
        # A clock that was set back must not let two statements of a key be current at one moment.
        moment = self.now if standing is None else max(self.now, standing.created_at)
        superseded: tuple[str, ...] = ()
        if standing is not None and not is_history:
            self._supersede(standing, memory.rung, moment)
            superseded = (standing.id,)
        turn = TurnPlace.of(
            kind=memory.kind.value,
            rung=rung,
            conversation=digest(memory.source.conversation_id),
            event_time=event_time,
        )
        if is_history:
            turn = None
        impacts = document_impacts(prepared.terms, () if turn is None else self.turns.before(turn))
        columns = encode_memory(
            prepared,
            impacts,
            rung=rung,
            state=SUPERSEDED if is_history else CURRENT,
            version=self.version,
            created_at=moment,
        )
        inserted = self.connection.execute(_INSERT, _in_order(columns))
        if not inserted.rowcount:
            raise AlreadyExists(f"id {memory.id!r} is taken: choose another, or supersede by a key").at(
                position
            )
        number = inserted.lastrowid
        assert number is not None, "an INSERT of a row has its number"
        if prepared.other_vector is not None:
            store_next_vectors(self.connection, [NextVector(number, prepared.other_vector)])
        if turn is not None:
            self.turns.joined(replace(turn, number=number), prepared.terms)
        self._link_origins(position, prepared, number)
        self._states[memory.id] = MemoryState.SUPERSEDED if is_history else MemoryState.CURRENT
        if not is_history:
            in_place = as_reloaded(prepared, impacts, columns)
            self._current[memory.id] = self.turns.placement.as_served(in_place, prepared)
        return superseded

    def _standing(self, rung: int, key: str) -> "_Standing | None":
        """The memory that is current under a key."""
        if not key:
            return None
        row = self.connection.execute(
            "SELECT number, id, event_time, created_at, kind, conversation_digest FROM memories "
            f"WHERE rung = ? AND key_digest = ? AND state = {CURRENT}",
            (rung, digest(key)),
        ).fetchone()
        if row is None:
            return None
        number, identity, event_time, created_at, kind, conversation = row
        turn = TurnPlace.of(
            kind=kind, rung=rung, conversation=conversation, event_time=event_time, number=number
        )
        return _Standing(number, identity, event_time, created_at, turn)

    def _supersede(self, standing: "_Standing", rung: Rung, moment: int) -> None:
        self.connection.execute(
            f"UPDATE memories SET state = {SUPERSEDED}, "
            "superseded_version = ?, superseded_at = ?, fate_checksum = ? WHERE number = ?",
            (self.version, moment, fate_checksum(SUPERSEDED, self.version, moment), standing.number),
        )
        if standing.turn is not None:
            self.turns.superseded(standing.turn)
        if standing.id in self._states:
            self._states[standing.id] = MemoryState.SUPERSEDED
            del self._current[standing.id]
        else:
            self._removed.append(RemovedMemory(standing.id, rung))

    def _link_origins(self, position: int, prepared: PreparedMemory, number: int) -> None:
        for origin in dict.fromkeys(prepared.memory.source.memory_ids):
            row = self.connection.execute(
                "SELECT m.number, r.path FROM memories m JOIN rungs r ON r.number = m.rung "
                "WHERE m.id = ? AND m.number <> ?",
                (origin, number),
            ).fetchone()
            if row is None or not self._may_derive_from(decode_rung(row[1])):
                raise NotFound(f"it is derived from {origin!r}, which does not exist (any more)").at(position)
            self.connection.execute("INSERT INTO derivations VALUES (?, ?)", (row[0], number))

    def _may_derive_from(self, rung: Rung) -> bool:
        return self.branch is None or rung.is_in_line_with(self.branch)


@dataclass(frozen=True, slots=True)
class _Standing:
    number: int
    id: str
    event_time: int
    created_at: int
    turn: TurnPlace | None
