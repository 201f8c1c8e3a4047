"""One conversation's session: who may see what, what was said, what the cache holds."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from precall.engine.anticipation.conversation import Conversation
from precall.engine.anticipation.conversation_model import ConversationModel
from precall.engine.anticipation.events import Push, PushedCoverage, PushedMemory, RungClaim
from precall.engine.anticipation.held import HeldSet
from precall.engine.anticipation.predictor import Proposal
from precall.engine.anticipation.stream import NEVER, Stream
from precall.engine.index.partition import Partition, find_indexed
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory

WHOLE_RUNG = "whole_rung"
WRITTEN = "written"


@dataclass(slots=True, eq=False)
class Session:
    """State of one session; only the event loop may touch it.

    ``partitions`` are those of the rungs it may see, the narrowest first, with vectors of ``model``.
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
    complete: set[Rung] = field(default_factory=set)
    lingering: dict[str, int] = field(default_factory=dict)
    announced_version: int = 0
    lost_version: int = 0
    sequence: int = 0
    observed_at: float = 0.0
    ended_sequence: int = NEVER
    last_push_id: int = 0
    last_coverage_id: int = 0
    predicting: bool = False
    outdated: bool = False

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
    def wholly_complete(self) -> bool:
        return len(self.complete) == len(self.partitions)

    def open_push(self, *, complete_below: int, part_items: int) -> Sequence[Push]:
        """The first difference: every small rung whole, the narrowest first, as far as the budget goes."""
        items: list[PushedMemory] = []
        for partition in self.partitions:
            memories = partition.all() if len(partition) <= complete_below else None
            if memories is not None and self.held.fits(memories):
                self.held.add_lasting(memories)
                self.complete.add(partition.rung)
                items += self._pushed(memories, WHOLE_RUNG)
        terms = {term for item in items for term in item.indexed.impacts}
        return self._parts(items, part_items, reset=True, rungs=self._claims(terms))

    def answer_push(
        self, proposal: Proposal, *, caused_at: float, caused_by_sequence: int, part_items: int
    ) -> Sequence[Push]:
        """The difference that a proposal makes, with the claim that it allows."""
        self.last_coverage_id += 1
        coverage_id = self.last_coverage_id
        # What a write removed since is in no partition any more; what a later one removes is among the held.
        standing = [i for i in proposal.memory_ids if any(i in p for p in self.partitions)]
        found = [find_indexed(self.partitions, i) for i in standing if i not in self.held]
        new = [indexed for indexed in found if indexed is not None]
        difference = self.held.add_answer(coverage_id, standing, new)
        query = proposal.query
        coverage = (
            PushedCoverage(
                coverage_id,
                query.vector,
                query.terms,
                query.floor,
                query.keyword_share,
                proposal.version,
                proposal.predictor,
            )
            if self.held.covers(coverage_id) and proposal.version >= self.lost_version
            else None
        )
        terms = set(query.terms).union(*(indexed.impacts for indexed in difference.added))
        return self._parts(
            self._pushed(difference.added, proposal.predictor),
            part_items,
            evicted_ids=difference.evicted_ids,
            coverage=coverage,
            retired_coverage_ids=difference.retired_coverage_ids,
            rungs=self._claims(terms),
            caused_at=caused_at,
            caused_by_sequence=caused_by_sequence,
        )

    def written_push(
        self, added: Sequence[IndexedMemory], removed_terms: Iterable[str], *, part_items: int
    ) -> Sequence[Push]:
        """The difference that a write makes: what is new on the session's rungs is held from now on."""
        retired: Sequence[int] = ()
        if self.held.fits(added):
            new = self.held.add_lasting(added)
        else:
            new = []
            retired = self.held.retire_coverages()
            self.complete -= {indexed.memory.rung for indexed in added}
            self.lost_version = self.announced_version
        terms = {*removed_terms, *(term for indexed in added for term in indexed.impacts)}
        return self._parts(
            self._pushed(new, WRITTEN),
            part_items,
            retired_coverage_ids=retired,
            rungs=self._claims(terms),
        )

    def _pushed(self, memories: Sequence[IndexedMemory], predictor: str) -> list[PushedMemory]:
        return [
            PushedMemory(indexed, self.ladder.level_of(indexed.memory.rung), predictor)
            for indexed in memories
        ]

    def _claims(self, terms: Collection[str]) -> list[RungClaim]:
        """What is true of every visible rung now.

        A complete rung the client counts for itself. Of the others it is told how often the given terms stand
        there, whichever rung brought them up: a term's weight is that of all visible rungs together.
        """
        return [
            RungClaim(
                level=self.ladder.level_of(partition.rung),
                complete=partition.rung in self.complete,
                memories=len(partition),
                statistics=None if partition.rung in self.complete else partition.statistics(terms),
            )
            for partition in self.partitions
        ]

    def _parts(
        self,
        items: Sequence[PushedMemory],
        part_items: int,
        *,
        rungs: Sequence[RungClaim],
        reset: bool = False,
        evicted_ids: Sequence[str] = (),
        coverage: PushedCoverage | None = None,
        retired_coverage_ids: Sequence[int] = (),
        caused_at: float | None = None,
        caused_by_sequence: int = 0,
    ) -> Sequence[Push]:
        """Cut a difference into messages of a bounded size; claims travel with the last one."""
        self.last_push_id += 1
        chunks = [items[start : start + part_items] for start in range(0, len(items), part_items)] or [[]]
        return [
            Push(
                session_id=self.id,
                push_id=self.last_push_id,
                version=self.announced_version,
                reset=reset and position == 0,
                last=(last := position == len(chunks) - 1),
                items=chunk,
                evicted_ids=evicted_ids if position == 0 else (),
                retired_coverage_ids=retired_coverage_ids if position == 0 else (),
                coverage=coverage if last else None,
                rungs=rungs if last else (),
                caused_at=caused_at,
                caused_by_sequence=caused_by_sequence,
            )
            for position, chunk in enumerate(chunks)
        ]
