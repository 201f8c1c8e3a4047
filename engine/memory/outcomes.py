"""What writing and destroying did, so that indexes and caches can follow exactly; and its form on disk."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, MemoryState


@dataclass(frozen=True, slots=True)
class WrittenMemory:
    """``state`` is what holds once the whole batch is in; ``superseded_ids``: whom this one superseded."""

    id: str
    state: MemoryState
    superseded_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemovedMemory:
    """A memory that was current before and is no more, or no more with the same keyword weights."""

    id: str
    rung: Rung

    @staticmethod
    def of(indexed: IndexedMemory) -> "RemovedMemory":
        return RemovedMemory(indexed.memory.id, indexed.memory.rung)


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """``written`` in the order of the batch. ``added``: current now, exactly as a reload would give them;
    ``removed``: current before the batch and superseded by it; ``reweighed``: current before and after it,
    as a reload would give them, with other keyword weights. All are empty on a replay: nothing changed.
    """

    version: int
    written: tuple[WrittenMemory, ...]
    added: tuple[IndexedMemory, ...] = ()
    removed: tuple[RemovedMemory, ...] = ()
    reweighed: tuple[IndexedMemory, ...] = ()
    replayed: bool = False

    def to_json(self) -> str:
        written = [[item.id, item.state.value, item.superseded_ids] for item in self.written]
        return json.dumps([self.version, written], separators=(",", ":"))

    @staticmethod
    def replay(text: str) -> "WriteOutcome":
        """The stored outcome of a request that comes again. Raises ValueError for another kind's outcome."""
        version, written = json.loads(text)
        return WriteOutcome(
            version=version,
            written=tuple(
                WrittenMemory(identity, MemoryState(state), tuple(superseded))
                for identity, state, superseded in written
            ),
            replayed=True,
        )


@dataclass(frozen=True, slots=True)
class NetEffect:
    """What writes that follow one another do together: what was current between two of them is in none."""

    added: tuple[IndexedMemory, ...]
    removed: tuple[RemovedMemory, ...]
    reweighed: tuple[IndexedMemory, ...]

    @staticmethod
    def of(outcomes: Sequence[WriteOutcome]) -> "NetEffect":
        """``outcomes`` in the order of their versions."""
        added: dict[str, IndexedMemory] = {}
        removed: list[RemovedMemory] = []
        reweighed: dict[str, IndexedMemory] = {}
        for outcome in outcomes:
            for each in outcome.removed:
                reweighed.pop(each.id, None)
                if added.pop(each.id, None) is None:
                    removed.append(each)
            added |= {indexed.memory.id: indexed for indexed in outcome.added}
            for indexed in outcome.reweighed:
                (added if indexed.memory.id in added else reweighed)[indexed.memory.id] = indexed
        return NetEffect(tuple(added.values()), tuple(removed), tuple(reweighed.values()))


@dataclass(frozen=True, slots=True)
class DeletedMemory:
    """A memory whose row is gone; ``was_current`` tells whether the indexes held it."""

    id: str
    rung: Rung
    was_current: bool


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """``deleted`` in order of arrival, with what went because it hung on what was named.

    ``missing_ids``: asked for, but not there or not to be seen by the caller. ``reweighed``: current before
    and after it, as a reload would give them, without the words of what went in their keyword weights. A
    replay names what the first call deleted, and nothing that was weighed anew.
    """

    version: int
    deleted: tuple[DeletedMemory, ...]
    missing_ids: tuple[str, ...] = ()
    replayed: bool = False
    reweighed: tuple[IndexedMemory, ...] = ()

    @property
    def removed(self) -> tuple[RemovedMemory, ...]:
        """Those that the indexes must drop."""
        return tuple(RemovedMemory(item.id, item.rung) for item in self.deleted if item.was_current)

    def to_json(self) -> str:
        rungs = list(dict.fromkeys(item.rung for item in self.deleted))
        numbers = {rung: number for number, rung in enumerate(rungs)}
        deleted = [[item.id, numbers[item.rung], int(item.was_current)] for item in self.deleted]
        content = [self.version, [rung.values for rung in rungs], deleted, self.missing_ids]
        return json.dumps(content, separators=(",", ":"))

    @staticmethod
    def replay(text: str) -> "DeleteOutcome":
        """The stored outcome of a request that comes again. Raises ValueError for another kind's outcome."""
        version, paths, deleted, missing_ids = json.loads(text)
        rungs = [Rung(tuple(path)) for path in paths]
        return DeleteOutcome(
            version=version,
            deleted=tuple(
                DeletedMemory(identity, rungs[rung], bool(was_current))
                for identity, rung, was_current in deleted
            ),
            missing_ids=tuple(missing_ids),
            replayed=True,
        )
