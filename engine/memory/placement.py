"""Where the vectors of a tenant's models stand in its file, as the state of its migration has it.

| state       | serving | in the memory's row | beside it, in ``next_vectors``            |
|-------------|---------|---------------------|-------------------------------------------|
| none        | the one | the one             | nothing                                   |
| BACKFILLING | old     | old                 | new, as far as it is made                 |
| SWITCHED    | new     | old                 | new, of every memory                      |
| FINISHING   | new     | new, or still old   | new, of exactly those that are old still  |
| FINISHED    | new     | new                 | nothing                                   |
| ROLLED_BACK | old     | old                 | new, as far as it is not removed yet      |

A row that has lost what must stand beside it is damaged: it is never left out, nor is a vector of one model
taken for another's.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from precall.engine.errors import FingerprintMismatch
from precall.engine.memory.decoded_memory import decode_indexed_memory, verify_indexed, with_vector
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.migration import MigrationState, StoredModel
from precall.engine.memory.migration_record import RECORD_COLUMNS, MigrationRecord
from precall.engine.memory.next_vectors import as_reloaded_vector, decode_next_vector
from precall.engine.memory.prepared import PreparedMemory
from precall.engine.memory.rows import INDEXED_COLUMNS, DamagedRow, Row

_IN_PLACE: Final = "FROM memories m JOIN rungs r ON r.number = m.rung"
_BESIDE: Final = f"{_IN_PLACE} LEFT JOIN next_vectors n ON n.number = m.number"
_BESIDE_COLUMNS: Final = f"{INDEXED_COLUMNS}, m.number, n.vector, n.checksum"

_TWO_PLACES: Final = frozenset(
    {MigrationState.BACKFILLING, MigrationState.SWITCHED, MigrationState.FINISHING}
)
_NEW_SERVES: Final = frozenset({MigrationState.SWITCHED, MigrationState.FINISHING, MigrationState.FINISHED})


@dataclass(frozen=True, slots=True)
class Placement:
    """``model``: that which the file's settings name. ``record``: of the newest migration, if any."""

    model: StoredModel
    record: MigrationRecord | None

    @staticmethod
    def read(connection: sqlite3.Connection) -> "Placement":
        """Of the state that the transaction sees. Raises DamagedRow."""
        row = connection.execute(
            f"SELECT model_fingerprint, dimension, {RECORD_COLUMNS} FROM meta JOIN migration USING (row)"
        ).fetchone()
        if row is None:
            raise DamagedRow("the row of its migration is lost")
        return _placement(row)

    @property
    def state(self) -> MigrationState | None:
        return None if self.record is None else self.record.state

    @property
    def serving(self) -> StoredModel:
        """The model that answers searches."""
        if self.record is not None and self.record.state in _NEW_SERVES:
            return self.record.new
        return self.model

    @property
    def other(self) -> StoredModel | None:
        """The second model whose vectors are stored with each write."""
        if self.record is None:
            return None
        if self.record.state is MigrationState.BACKFILLING:
            return self.record.new
        return self.record.old if self.record.state is MigrationState.SWITCHED else None

    @property
    def other_is_needed(self) -> bool:
        """Whether a write must bring the other model's vector: nobody would make it later."""
        return self.state is MigrationState.SWITCHED

    @property
    def columns(self) -> str:
        """What `decode` takes, from `tables`."""
        return _BESIDE_COLUMNS if self.state in _TWO_PLACES else INDEXED_COLUMNS

    @property
    def tables(self) -> str:
        return _BESIDE if self.state in _TWO_PLACES else _IN_PLACE

    def decode(self, row: Row) -> IndexedMemory:
        """With the vectors of the serving and of the other model. Raises DamagedRow."""
        if self.state not in _TWO_PLACES:
            return decode_indexed_memory(row, dimension=self.serving.dimension)
        assert self.record is not None
        *indexed_row, number, content, checksum = row
        self.check_beside(number, content)
        is_moved = self.state is MigrationState.FINISHING and content is None
        model_in_place = self.serving if is_moved else self.model
        in_place = decode_indexed_memory(indexed_row, dimension=model_in_place.dimension)
        if content is None:
            return in_place
        beside = decode_next_vector(number, content, checksum, dimension=self.record.new.dimension)
        if self.state is MigrationState.BACKFILLING:
            return replace(in_place, other_vector=beside)
        kept = in_place.vector if self.state is MigrationState.SWITCHED else None
        return replace(in_place, vector=beside, other_vector=kept)

    def check_beside(self, number: int, content: bytes | None) -> None:
        """``content``: what stands beside a memory; None: nothing. Raises DamagedRow where a vector is lost,
        or one stands there that should not.
        """
        if self.record is None or self.record.state not in _NEW_SERVES:
            return
        is_switched = self.record.state is MigrationState.SWITCHED
        is_needed = is_switched or self.record.settled < number <= self.record.last
        if is_needed and content is None:
            raise DamagedRow(f"the memory of row {number} has lost its new vector")
        if not is_needed and content is not None:
            raise DamagedRow(f"the memory of row {number} has two new vectors")

    def as_stored(self, prepared: PreparedMemory) -> PreparedMemory:
        """With the vector for the memory's row first, and that for the place beside it, if any, as the other
        one. ``prepared`` was checked: it has what it needs.
        """
        if self.state is MigrationState.SWITCHED:
            assert prepared.other_vector is not None
            return replace(prepared, vector=prepared.other_vector, other_vector=prepared.vector)
        if prepared.other_vector is not None and self.other is None:
            return replace(prepared, other_vector=None)
        return prepared

    def as_served(self, in_place: IndexedMemory, stored: PreparedMemory) -> IndexedMemory:
        """What `decode` gives of a row that was made of ``stored``, an answer of `as_stored`."""
        if stored.other_vector is None:
            return in_place
        beside = as_reloaded_vector(stored.other_vector)
        if self.state is MigrationState.SWITCHED:
            return replace(in_place, vector=beside, other_vector=in_place.vector)
        return replace(in_place, other_vector=beside)

    def view(self, fingerprint: str | None) -> "VectorView":
        """The memories with the vectors of one model; None: of that which serves.

        Raises FingerprintMismatch for one that is neither the serving nor the other one.
        """
        models = {model.fingerprint: model for model in (self.serving, self.other) if model is not None}
        if fingerprint is not None and fingerprint not in models:
            raise FingerprintMismatch(
                f"the tenant has no vectors of model {fingerprint}; it has those of {' and '.join(models)}",
                metadata={"model_fingerprint": self.serving.fingerprint},
            )
        return VectorView(self, models[fingerprint] if fingerprint is not None else self.serving)


@lru_cache(maxsize=256)
def _placement(row: Row) -> Placement:
    """Every transaction reads this row, which hardly ever changes: verifying it takes longer than reading it.

    Raises DamagedRow.
    """
    model, record = StoredModel(row[0], row[1]), MigrationRecord.of_row(row[2:])
    if record is not None:
        expected = record.new if record.state is MigrationState.FINISHED else record.old
        if model != expected:
            raise DamagedRow("its settings and its migration speak of different models")
    return Placement(model, record)


@dataclass(frozen=True, slots=True)
class VectorView:
    """How a reader gets memories with the vectors of one model, and nothing of another one."""

    placement: Placement
    model: StoredModel

    @property
    def columns(self) -> str:
        """What the methods take, from `tables`."""
        return INDEXED_COLUMNS if self._is_in_place else self.placement.columns

    @property
    def tables(self) -> str:
        return _IN_PLACE if self._is_in_place else self.placement.tables

    def decode(self, rows: Sequence[Row]) -> Iterator[IndexedMemory]:
        """In their order, less those that the model has made no vector of yet. Raises DamagedRow."""
        for row in self.indexed_rows(rows):
            yield decode_indexed_memory(row, dimension=self.model.dimension)

    def indexed_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """What `decode` decodes, as rows of `INDEXED_COLUMNS`. Raises DamagedRow."""
        if self._is_in_place:
            return rows
        return [found for row in rows if (found := self._indexed_row(row)) is not None]

    def _indexed_row(self, row: Row) -> Row | None:
        """The view is of the new model."""
        *in_place, number, content, checksum = row
        self.placement.check_beside(number, content)
        if content is None:
            return in_place if self.placement.state is MigrationState.FINISHING else None
        verify_indexed(in_place)  # a new checksum must not hide what was damaged
        decode_next_vector(number, content, checksum, dimension=self.model.dimension)
        return with_vector(in_place, content)

    @property
    def _is_in_place(self) -> bool:
        """Whether every row of the table has this model's vector: then nothing else is read."""
        return self.model == self.placement.model and self.placement.state is not MigrationState.FINISHING
