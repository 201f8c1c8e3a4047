"""Turns of conversations, and what of them counts in the keyword weights of those that follow.

A turn is a memory of kind `episode` that names its conversation. Facts that were extracted from it name it
too and are none: they stand for themselves. The turns of one conversation on one rung stand in the order of
their event times, and of arrival where these are the same. A current turn takes in the words of as many
current ones before it as there are `CONTEXT_SHARES` (`precall.scoring.keyword` has the formula), if each was
said at most `GAP` before the one that follows. History takes in nothing and lends nothing: it is found by its
own words.

So a turn that arrives last changes nothing that is stored. One that arrives late, is superseded or is
destroyed changes the few behind it, and these are weighed anew in the same transaction: no word of a deleted
memory stays behind in the weights of another. Texts are analysed again for it; own terms are not stored.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from precall.engine.memory.decoded_memory import decode_memory
from precall.engine.memory.encoded_memory import encode_impacts
from precall.engine.memory.memory import IndexedMemory, MemoryKind, MemoryState
from precall.engine.memory.placement import Placement
from precall.engine.memory.prepared import own_terms
from precall.engine.memory.rows import MEMORY_COLUMNS
from precall.engine.memory.schema import CURRENT_TURN
from precall.scoring.keyword import CONTEXT_SHARES, document_impacts

GAP: Final = 3_600 * 1_000_000
"""Microseconds between two turns after which a conversation was resumed rather than went on."""

UNSTORED: Final = 2**63 - 1
"""The number of a turn that has none yet: it comes last of its moment."""

_REACH: Final = len(CONTEXT_SHARES)

_BEFORE: Final = (
    "SELECT number, event_time FROM memories INDEXED BY memories_by_turn "
    "WHERE rung = :rung AND conversation_digest = :conversation "
    f"AND (event_time, number) < (:event_time, :number) AND {CURRENT_TURN} "
    f"ORDER BY event_time DESC, number DESC LIMIT {_REACH}"
)
_BEHIND: Final = (
    "SELECT number FROM memories INDEXED BY memories_by_turn "
    "WHERE rung = :rung AND conversation_digest = :conversation "
    f"AND (event_time, number) > (:event_time, :number) AND event_time <= :latest AND {CURRENT_TURN} "
    f"ORDER BY event_time, number LIMIT {_REACH}"
)
_SAID: Final = f"SELECT {MEMORY_COLUMNS} FROM memories m JOIN rungs r ON r.number = m.rung WHERE m.number = ?"
_WEIGH: Final = (
    "UPDATE memories SET impact_terms = :impact_terms, impact_weights = :impact_weights, "
    "indexed_checksum = :indexed_checksum WHERE number = :number"
)


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Where a turn stands. ``rung`` and ``number`` are those of the tables, ``conversation`` is a digest,
    ``event_time`` Unix microseconds.
    """

    rung: int
    conversation: bytes
    event_time: int
    number: int = UNSTORED

    @classmethod
    def of(
        cls, *, kind: str, rung: int, conversation: bytes | None, event_time: int, number: int = UNSTORED
    ) -> Self | None:
        """None for what is no turn."""
        if kind != MemoryKind.EPISODE.value or conversation is None:
            return None
        return cls(rung, conversation, event_time, number)

    @property
    def parameters(self) -> dict[str, object]:
        return {
            "rung": self.rung,
            "conversation": self.conversation,
            "event_time": self.event_time,
            "number": self.number,
        }


class Turns:
    """The turns of a file during one transaction; to be dropped with it, or when a part of it is undone.

    Tell it of each turn that becomes current or ceases to be, after the file has changed, and `settle` last:
    then each weight in the file is what it would be, had everything that stands been written in order.
    """

    def __init__(self, connection: sqlite3.Connection, placement: Placement) -> None:
        self._connection = connection
        self.placement = placement
        self._weighed = (
            f"SELECT m.rung, m.conversation_digest, m.event_time, m.vector, {placement.columns} "
            f"{placement.tables} WHERE m.number = ?"
        )
        self._terms: dict[int, Sequence[str]] = {}
        self._stale: set[int] = set()

    def before(self, place: TurnPlace) -> Sequence[Sequence[str]]:
        """The terms of what a turn there takes in, the latest first. Raises DamagedRow."""
        terms: list[Sequence[str]] = []
        following = place.event_time
        for number, event_time in self._connection.execute(_BEFORE, place.parameters).fetchall():
            if following - event_time > GAP:
                break
            terms.append(self._own_terms(number))
            following = event_time
        return terms

    def joined(self, place: TurnPlace, terms: Sequence[str]) -> None:
        """A current turn with these terms was stored."""
        self._terms[place.number] = terms
        self._mark_behind(place)

    def superseded(self, place: TurnPlace) -> None:
        """A turn is history now."""
        self._stale.add(place.number)
        self._mark_behind(place)

    def destroyed(self, place: TurnPlace) -> None:
        """The row of a turn that was current is gone."""
        self._mark_behind(place)

    def settle(self) -> tuple[IndexedMemory, ...]:
        """Weigh anew what the changes reach; the current ones whose weights changed, in order of arrival.

        Raises DamagedRow.
        """
        if not self._stale:
            return ()
        stale, self._stale = sorted(self._stale), set()
        weighed = [self.weigh(number) for number in stale]
        return tuple(
            indexed
            for indexed in weighed
            if indexed is not None and indexed.memory.state is MemoryState.CURRENT
        )

    def weigh(self, number: int) -> IndexedMemory | None:
        """Give a memory the weights that follow from what stands now; None if it has them, or is gone.

        Raises DamagedRow.
        """
        found = self._connection.execute(self._weighed, (number,)).fetchone()
        if found is None:
            return None
        rung, conversation, event_time, vector, *row = found
        indexed = self.placement.decode(row)
        memory = indexed.memory
        place = None
        if memory.state is MemoryState.CURRENT:
            place = TurnPlace.of(
                kind=memory.kind.value,
                rung=rung,
                conversation=conversation,
                event_time=event_time,
                number=number,
            )
        own = self._terms.setdefault(number, own_terms(memory.text, memory.questions))
        impacts = document_impacts(own, () if place is None else self.before(place))
        if impacts == indexed.impacts:
            return None
        self._connection.execute(_WEIGH, {**encode_impacts(impacts, vector), "number": number})
        return replace(indexed, impacts=impacts)

    def _own_terms(self, number: int) -> Sequence[str]:
        terms = self._terms.get(number)
        if terms is None:
            row = self._connection.execute(_SAID, (number,)).fetchone()
            memory = decode_memory(row)  # it looks at the checksum: damage must not be copied
            terms = self._terms[number] = own_terms(memory.text, memory.questions)
        return terms

    def _mark_behind(self, place: TurnPlace) -> None:
        """Those that take in a turn there, or did so while it and others between them stood."""
        rows = self._connection.execute(
            _BEHIND, {**place.parameters, "latest": place.event_time + _REACH * GAP}
        )
        self._stale.update(int(row[0]) for row in rows)
