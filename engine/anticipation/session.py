"""One conversation's session: who may see what, what was said, what the cache holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from precall.engine.anticipation.conversation import Conversation
from precall.engine.anticipation.events import Push, PushedCoverage, PushedMemory, RungClaim
from precall.engine.anticipation.held import HeldSet
from precall.engine.anticipation.predictor import Proposal
from precall.engine.anticipation.stream import Stream
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory

WHOLE_RUNG = "whole_rung"
WRITTEN = "written"


@dataclass(slots=True, eq=False)
class Session:
    """State of one session; only the event loop may touch it.

    ``partitions`` are those of the rungs it may see, the narrowest first. ``announced_version``: every
    change up to it was queued for the session. ``sequence`` is the last observation that was taken. ``inherited`` are ids that an earlier connection of the same session may
    still hold until the event ``reset_sequence``, which resets the cache, has been applied.
    """

    id: str
    tenant_id: str
    conversation_id: str
    rung: Rung
    ladder: Ladder
    partitions: Sequence[Partition]
    stream: Stream
    held: HeldSet
    conversation: Conversation
    complete: set[Rung] = field(default_factory=set)
    inherited: set[str] = field(default_factory=set)
    reset_sequence: int = 0
    announced_version: int = 0
    sequence: int = 0
    last_push_id: int = 0
    last_coverage_id: int = 0
    predicting: bool = False
    outdated: bool = False

    def may_hold(self, memory_id: str) -> bool:
        """Whether the client may have the memory in its cache, now or once it has read its stream."""
        if self.inherited and self.stream.applied >= self.reset_sequence:
            self.inherited.clear()
        return memory_id in self.held or memory_id in self.inherited

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
        return self._parts(items, part_items, reset=True, rungs=self._claims({}))

    def answer_push(self, proposal: Proposal, *, caused_at: float, part_items: int) -> Sequence[Push]:
        """The difference that a proposal makes, with the claim that it allows; empty when there is none."""
        self.last_coverage_id += 1
        coverage_id = self.last_coverage_id
        difference = self.held.add_answer(coverage_id, proposal.memories)
        query = proposal.query
        coverage = (
            PushedCoverage(
                coverage_id, query.vector, query.terms, query.floor, proposal.version, proposal.predictor
            )
            if self.held.covers(coverage_id)
            else None
        )
        terms = set(query.terms).union(*(indexed.impacts for indexed in difference.added))
        return self._parts(
            self._pushed(difference.added, proposal.predictor),
            part_items,
            evicted_ids=difference.evicted_ids,
            coverage=coverage,
            retired_coverage_ids=difference.retired_coverage_ids,
            rungs=self._claims({p.rung: terms for p in self.partitions if p.rung not in self.complete}),
            caused_at=caused_at,
            caused_by_sequence=self.sequence,
        )

    def written_push(self, added: Sequence[IndexedMemory], *, part_items: int) -> Sequence[Push]:
        """The difference that a write makes: what is new on the session's rungs is held from now on."""
        retired: Sequence[int] = ()
        if self.held.fits(added):
            new = self.held.add_lasting(added)
        else:
            new = []
            retired = self.held.retire_coverages()
            self.complete -= {indexed.memory.rung for indexed in added}
        changed = {indexed.memory.rung for indexed in added}
        terms = {
            rung: {term for indexed in added if indexed.memory.rung == rung for term in indexed.impacts}
            for rung in changed
        }
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

    def _claims(self, terms: dict[Rung, set[str]]) -> list[RungClaim]:
        """What is true of every visible rung now; statistics of the given terms where the client needs them."""
        return [
            RungClaim(
                level=self.ladder.level_of(partition.rung),
                complete=partition.rung in self.complete,
                memories=len(partition),
                statistics=(
                    None
                    if partition.rung in self.complete
                    else partition.statistics(terms.get(partition.rung, set()))
                ),
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
