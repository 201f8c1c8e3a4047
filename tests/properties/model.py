"""A tenant's memories as the documents describe them: a list, and rules that read all of it each time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MemoryKind, NewMemory
from tests.properties.model_change import ModelChange
from tests.properties.service import Given
from tests.properties.vectors import OLD


@dataclass(frozen=True)
class Statement:
    """What was said, and what became of it. Times are Unix seconds.

    ``given``: fingerprint -> words, of which the writer brought that model's vector; any other model's is
    made of the text.
    """

    said: NewMemory
    stored_at: float
    version: int
    superseded_at: float | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.said.id

    @property
    def current(self) -> bool:
        return self.superseded_at is None

    @property
    def event(self) -> float:
        return self.said.event_time.timestamp()

    def words_for(self, fingerprint: str) -> str:
        """What that model's vector was made of."""
        return self.given.get(fingerprint, self.said.text)

    @property
    def is_turn(self) -> bool:
        return bool(self.said.kind is MemoryKind.EPISODE and self.said.source.conversation_id)

    def was_current_at(self, moment: float) -> bool:
        return self.stored_at <= moment and (self.superseded_at is None or self.superseded_at > moment)

    def has_expired(self, now: float) -> bool:
        return self.said.expires_at is not None and self.said.expires_at.timestamp() <= now

    def may_be_served(self, now: float) -> bool:
        """At this moment a search may find it: it is valid and has not expired."""
        begin, end = self.said.valid_from, self.said.valid_until
        return (
            (begin is None or begin.timestamp() <= now)
            and (end is None or now < end.timestamp())
            and not self.has_expired(now)
        )

    def passes(self, asked: MemoryFilter | None) -> bool:
        if asked is None:
            return True
        said = self.said
        return (
            (not asked.kinds or said.kind in asked.kinds)
            and all(said.metadata.get(name) == value for name, value in asked.metadata.items())
            and (asked.event_from is None or said.event_time >= asked.event_from)
            and (asked.event_until is None or said.event_time < asked.event_until)
            and (not asked.conversation_ids or said.source.conversation_id in asked.conversation_ids)
            and (not asked.keys or said.key in asked.keys)
            and (not asked.pinned_only or said.pinned)
        )


Named = Callable[[Statement], bool]


@dataclass
class Model:
    """One tenant. ``statements`` stand in the order in which they arrived."""

    statements: list[Statement] = field(default_factory=list)
    version: int = 0
    change: ModelChange = field(default_factory=lambda: ModelChange(OLD))

    def copy(self) -> "Model":
        return deepcopy(self)

    def ids(self) -> list[str]:
        return [each.id for each in self.statements]

    def take(self, step: str, goal: str) -> None:
        """A step from one model to another; vectors of the one that is given up are gone."""
        change = self.change
        change.take(step, goal)
        given_up = {"finish": change.origin, "roll back": change.goal}.get(step, "")
        for place, each in enumerate(self.statements):
            if given_up in each.given:
                kept = {name: words for name, words in each.given.items() if name != given_up}
                self.statements[place] = replace(each, given=kept)

    def write(
        self, batch: Sequence[NewMemory], now: float, given: Sequence[Given | None] = ()
    ) -> list[tuple[str, bool, tuple[str, ...]]]:
        """One version later; of each memory its id, whether it stands, and whom it superseded."""
        self.version += 1
        superseded: list[tuple[str, ...]] = []
        for said, vector in zip(batch, given or [None] * len(batch), strict=True):
            brought = {} if vector is None else {vector.fingerprint: vector.words}
            new = Statement(said, now, self.version, given=brought)
            standing = self._standing(said.rung, said.key)
            superseded.append(())
            if standing is not None:
                moment = max(now, standing.stored_at)
                if said.event_time >= standing.said.event_time:
                    place = self.statements.index(standing)
                    self.statements[place] = replace(standing, superseded_at=moment)
                    new = replace(new, stored_at=moment)
                    superseded[-1] = (standing.id,)
                else:
                    new = replace(new, stored_at=moment, superseded_at=moment)
            self.statements.append(new)
        standing_ids = {each.id for each in self.statements if each.current}
        return [(said.id, said.id in standing_ids, ids) for said, ids in zip(batch, superseded, strict=True)]

    def destroy(self, named: Named) -> set[str]:
        """What is named, what was derived from it, and the history of a key whose current statement goes."""
        doomed = {each.id for each in self.statements if named(each)}
        while True:
            heads = {
                (each.said.rung, each.said.key) for each in self.statements if self._is_head(each, doomed)
            }
            grown = {
                each.id
                for each in self.statements
                if each.id in doomed
                or (each.said.rung, each.said.key) in heads
                or doomed.intersection(each.said.source.memory_ids)
            }
            if grown == doomed:
                break
            doomed = grown
        self.statements = [each for each in self.statements if each.id not in doomed]
        self.version += bool(doomed)
        return doomed

    def current(self, reader: Rung) -> list[Statement]:
        """What stands on the rungs that a reader sees."""
        return [each for each in self._seen_from(reader) if each.current]

    def current_at(self, reader: Rung, moment: float, now: float) -> list[Statement]:
        """What stood then, and has neither been destroyed nor expired since."""
        return [
            each
            for each in self._seen_from(reader)
            if each.was_current_at(moment) and not each.has_expired(now)
        ]

    def listed(
        self,
        rung: Rung,
        now: float,
        *,
        asked: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: float | None = None,
    ) -> list[tuple[str, bool]]:
        """Of exactly one rung, in order of arrival: id, and whether it stands, or stood then."""
        listed = []
        for each in self.statements:
            stands = each.current if as_of is None else each.was_current_at(as_of)
            stored = as_of is None or each.stored_at <= as_of
            shown = stored and (include_history or stands) and not each.has_expired(now)
            if each.said.rung == rung and shown and each.passes(asked):
                listed.append((each.id, stands))
        return listed

    def history(self, rung: Rung, key: str, now: float) -> list[str]:
        """Newest event first; of equal ones the later arrival first."""
        said = [
            (each.said.event_time, place, each.id)
            for place, each in enumerate(self.statements)
            if (each.said.rung, each.said.key) == (rung, key) and not each.has_expired(now)
        ]
        return [name for _, _, name in sorted(said, reverse=True)]

    def found(self, ids: Iterable[str], reader: Rung, now: float) -> list[str]:
        """Those of these ids that a reader is shown, in the order asked."""
        seen = {each.id for each in self._seen_from(reader) if not each.has_expired(now)}
        return [name for name in dict.fromkeys(ids) if name in seen]

    def turns_before(self, turn: Statement) -> list[Statement]:
        """The two current turns before it in its conversation, the latest first; an hour apart at most."""
        place = self.statements.index(turn)
        order = sorted(
            (each.said.event_time, number, each)
            for number, each in enumerate(self.statements)
            if each.is_turn
            and each.current
            and each.said.rung == turn.said.rung
            and each.said.source.conversation_id == turn.said.source.conversation_id
            and (each.said.event_time, number) < (turn.said.event_time, place)
        )
        before: list[Statement] = []
        following: datetime = turn.said.event_time
        for event, _, each in reversed(order[-2:]):
            if (following - event).total_seconds() > 3_600:
                break
            before.append(each)
            following = event
        return before

    def _standing(self, rung: Rung, key: str) -> Statement | None:
        if not key:
            return None
        stands = (each for each in self.statements if each.current)
        return next((each for each in stands if (each.said.rung, each.said.key) == (rung, key)), None)

    def _is_head(self, each: Statement, doomed: set[str]) -> bool:
        return bool(each.id in doomed and each.current and each.said.key)

    def _seen_from(self, reader: Rung) -> list[Statement]:
        rungs = [Rung(reader.values[:depth]) for depth in range(1, reader.depth + 1)]
        return [each for each in self.statements if each.said.rung in rungs]
