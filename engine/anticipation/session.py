"""One conversation's session: who may see what, what was said, what the cache holds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from precall.engine.anticipation.conversation import Conversation
from precall.engine.anticipation.conversation_model import ConversationModel
from precall.engine.anticipation.events import Push, PushedCoverage, PushedMemory
from precall.engine.anticipation.held import Difference, HeldSet, Reason
from precall.engine.anticipation.predictor import Proposal
from precall.engine.anticipation.rung_claims import RungClaims
from precall.engine.anticipation.rung_reading import RungReading
from precall.engine.anticipation.stream import NEVER, Stream
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory

WHOLE_RUNG = "whole_rung"
WRITTEN = "written"
RESUMED = "resumed"

_RESUMED_WORTH: Final = 0.5
"""What was worth holding before a connection broke gives way to what the next turns retrieve."""


@dataclass(slots=True, eq=False)
class Session:
    """State of one session; only the event loop may touch it.

    ``partitions`` are those of the rungs it may see, the narrowest first, with vectors of ``model``.
    ``parts_waiting``: parts of its pushes that may wait for a client which does not keep up.
    ``attempt``: which of the client's openings of the session made it, counted by the client.
    ``announced_version``: every change up to it was queued for the session. ``lost_version``: the last write
    that found no room in the cache. ``sequence`` and ``observed_at`` (Unix seconds) are of the last
    observation that was taken. ``lingering``: id -> the event that takes the memory out of the cache, for
    what was evicted and for what an earlier connection of the same session held. ``ended_sequence``: the
    event that ends the session on a stream which goes on.
    """

    id: str
    tenant_id: str
    conversation_id: str
    rung: Rung
    ladder: Ladder
    model: ConversationModel
    partitions: Sequence[Partition]
    stream: Stream
    held: HeldSet
    conversation: Conversation
    parts_waiting: int
    attempt: int = 0
    claims: RungClaims = field(init=False)
    inherited_rungs: set[Rung] = field(default_factory=set)
    lingering: dict[str, int] = field(default_factory=dict)
    announced_version: int = 0
    lost_version: int = 0
    sequence: int = 0
    observed_at: float = 0.0
    ended_sequence: int = NEVER
    last_push_id: int = 0
    last_coverage_id: int = 0

    def __post_init__(self) -> None:
        self.claims = RungClaims(self.partitions, self.ladder)

    def may_hold(self, memory_id: str) -> bool:
        """Whether the client may have the memory in its cache, now or once it has read its stream."""
        return memory_id in self.held or self.lingering.get(memory_id, 0) > self.stream.applied

    def held_ids(self) -> set[str]:
        """All that the client may have in its cache."""
        return {*self.held.ids, *(i for i, until in self.lingering.items() if until > self.stream.applied)}

    def linger(self, memory_ids: Collection[str], *, until: int) -> None:
        """These stay in the cache until the client has applied the event ``until``."""
        if memory_ids:
            applied = self.stream.applied
            self.lingering = {i: event for i, event in self.lingering.items() if event > applied}
            self.lingering.update((memory_id, until) for memory_id in memory_ids)

    def forget(self, memory_id: str) -> None:
        """The memory's invalidation goes out: whoever waits for it waits for that event."""
        self.held.remove(memory_id)
        self.lingering.pop(memory_id, None)

    @property
    def behind(self) -> bool:
        """Whether as many pushes wait for the client as may."""
        return self.stream.waiting(self.id) >= self.parts_waiting

    async def room(self) -> None:
        """Return once the client keeps up, or its stream has ended."""
        await self.stream.room(self.id, self.parts_waiting)

    @property
    def concerning(self) -> set[Rung]:
        """Rungs of which the client may hold memories: those it sees, and what earlier connections saw."""
        return {*self.rung.lineage(), *self.inherited_rungs}

    def go_on_from(self, earlier: "Session") -> None:
        """The same session on an earlier connection: what was said there, the latest of it, was said here.

        Pushes and coverages are counted on, so that a client never takes one for another.
        """
        self.last_push_id = max(self.last_push_id, earlier.last_push_id)
        self.last_coverage_id = max(self.last_coverage_id, earlier.last_coverage_id)
        self.inherited_rungs |= earlier.concerning
        alike = (earlier.conversation_id, earlier.rung) == (self.conversation_id, self.rung)
        if alike and earlier.sequence >= self.sequence:
            self.conversation = earlier.conversation
            if earlier.model.card.fingerprint != self.model.card.fingerprint:
                self.conversation.forget_vectors()
            self.sequence, self.observed_at = earlier.sequence, earlier.observed_at

    def open_push(
        self,
        *,
        readings: Sequence[RungReading],
        part_items: int,
        named: Mapping[str, int] | None = None,
        inherited: Collection[str] = (),
    ) -> Sequence[Push]:
        """The first difference: every small rung whole, the narrowest first, as far as the budget goes, and
        what the client still holds of others.

        ``readings``: of each partition, of this moment.
        ``named``: id -> stamp of what the client says that it holds, which it keeps where that is true still;
        None: it drops everything. ``inherited``: what it may hold beside that, whatever it says.
        """
        whole: list[IndexedMemory] = []
        for reading in readings:
            memories = [each.indexed for each in reading.memories.values()]
            sizes = [each.size for each in reading.memories.values()]
            if reading.whole and self.held.fits(memories, sizes):
                self.held.add_lasting(memories, WHOLE_RUNG, sizes)
                self.claims.complete.add(reading.partition.rung)
                whole += memories
        kept = self._keep(named or {}, readings)
        sent = [indexed for indexed in whole if indexed.memory.id not in kept]
        return replace(
            self._next_push(),
            items=self._pushed(sent, WHOLE_RUNG),
            reset=named is None,
            resumed=named is not None,
            evicted_ids=[] if named is None else sorted({*named, *inherited} - kept.keys()),
            rungs=self.claims.stated(_terms_of([*whole, *kept.values()])),
        ).parts(part_items)

    def _keep(self, named: Mapping[str, int], readings: Sequence[RungReading]) -> Mapping[str, IndexedMemory]:
        """Those of these that the client may keep: current, unchanged, and with room among what is held."""
        true = {
            memory_id: each.indexed
            for reading in readings
            for memory_id, each in reading.memories.items()
            if each.stamp is not None and each.stamp == named[memory_id]
        }
        others = [indexed for memory_id, indexed in true.items() if memory_id not in self.held]
        if others:
            self.last_coverage_id += 1
            ids = [indexed.memory.id for indexed in others]
            self.held.add(Reason(self.last_coverage_id, RESUMED, ids, _RESUMED_WORTH, claims=False), others)
        return {memory_id: indexed for memory_id, indexed in true.items() if memory_id in self.held}

    def answer_push(
        self, proposal: Proposal, *, caused_at: float, caused_by_sequence: int, part_items: int
    ) -> Sequence[Push]:
        """The difference that a proposal makes, with the claim that it allows; empty when it makes none.

        What answers no query allows no claim.
        """
        query = proposal.query
        self.last_coverage_id += 1
        coverage_id = self.last_coverage_id
        # What a write removed since is in no partition any more; what a later one removes is among the held.
        standing = [i for i in proposal.memory_ids if any(i in p for p in self.partitions)]
        found = [self._indexed(memory_id) for memory_id in standing if memory_id not in self.held]
        new = [indexed for indexed in found if indexed is not None]
        reason = Reason(
            coverage_id,
            proposal.predictor,
            standing,
            proposal.worth,
            claims=query is not None,
            cause=caused_by_sequence,
        )
        difference = self.held.add(reason, new)
        if query is None and not difference:
            return ()
        coverage = (
            PushedCoverage(
                coverage_id,
                query.vector,
                query.terms,
                query.floor,
                query.keyword_share,
                proposal.version,
                proposal.predictor,
                query.negated,
            )
            if query is not None and self.held.covers(coverage_id) and proposal.version >= self.lost_version
            else None
        )
        asked = query.terms if query is not None else ()
        return replace(
            self._next_push(),
            items=self._pushed(difference.added, proposal.predictor),
            evicted_ids=difference.evicted_ids,
            coverage=coverage,
            retired_coverage_ids=difference.retired_coverage_ids,
            rungs=self.claims.stated(_terms_of(difference.added).union(asked)),
            caused_at=caused_at,
            caused_by_sequence=caused_by_sequence,
        ).parts(part_items)

    def written_push(
        self, added: Sequence[IndexedMemory], removed_terms: Iterable[str], *, part_items: int
    ) -> Sequence[Push]:
        """The difference that a write makes: what is new on the session's rungs is held from now on.

        Where it finds no room in the cache, or the client does not keep up, it is left out, and said to be.
        """
        if not self.behind and self.held.fits(added):
            difference = self.held.add_lasting(added, WRITTEN)
        else:
            difference = Difference((), (), self.held.retire_coverages())
            self.claims.lose({indexed.memory.rung for indexed in added})
            self.lost_version = self.announced_version
        return replace(
            self._next_push(),
            items=self._pushed(difference.added, WRITTEN),
            evicted_ids=difference.evicted_ids,
            retired_coverage_ids=difference.retired_coverage_ids,
            rungs=self.claims.stated(_terms_of(added).union(removed_terms)),
        ).parts(part_items)

    def refill_push(self, *, part_items: int) -> Sequence[Push]:
        """Rungs that were whole till a write was left out, whole again, where there is room by now."""
        rungs, self.claims.incomplete = self.claims.incomplete, set()
        new: list[IndexedMemory] = []
        evicted: list[str] = []
        retired: list[int] = []
        for partition in self.partitions:
            if partition.rung in rungs and self.held.fits(memories := partition.all()):
                difference = self.held.add_lasting(memories, WHOLE_RUNG)
                self.claims.complete.add(partition.rung)
                new += difference.added
                evicted += difference.evicted_ids
                retired += difference.retired_coverage_ids
        if not rungs & self.claims.complete:
            return ()
        return replace(
            self._next_push(),
            items=self._pushed(new, WHOLE_RUNG),
            evicted_ids=evicted,
            retired_coverage_ids=retired,
            rungs=self.claims.stated(_terms_of(new)),
        ).parts(part_items)

    def _indexed(self, memory_id: str) -> IndexedMemory | None:
        return next((found for p in self.partitions if (found := p.indexed(memory_id)) is not None), None)

    def _pushed(self, memories: Sequence[IndexedMemory], predictor: str) -> list[PushedMemory]:
        return [
            PushedMemory(indexed, self.ladder.level_of(indexed.memory.rung), predictor)
            for indexed in memories
        ]

    def _next_push(self) -> Push:
        self.last_push_id += 1
        return Push(session_id=self.id, push_id=self.last_push_id, version=self.announced_version)


def _terms_of(memories: Iterable[IndexedMemory]) -> set[str]:
    return {term for indexed in memories for term in indexed.impacts}
