"""The predictor that looks around: what stands next to the memories that just mattered."""

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Final

from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.clock import Clock
from precall.engine.index.adjacency import related_by_key, said_around
from precall.engine.index.partition import Partition
from precall.engine.memory.memory import Memory
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search
from precall.scoring.vectors import widened

_SEEDS: Final = 8
_SEEDS_SEARCHED: Final = 2
"""Each costs a search of all visible rungs."""

_REACH: Final = 4
_RELATED: Final = 6
_NEAREST: Final = 8


class Neighbours:
    """What was said just before and after a memory, keys of its family, what it was derived from, and what
    lies nearest by vector.

    Around what an answer was built on, else around the best that a finished turn found: while one is being
    spoken, its own words bring more for the same room. Around what was merely found nothing is searched for
    by vector: the search that found it did so.
    """

    name = "neighbours"
    cues = Cue.USED | Cue.FOUND

    def __init__(self, clock: Clock, *, items: int, worth: float = 0.9) -> None:
        self._clock = clock
        self._items = items
        self._worth = worth

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        used, conversation = Cue.USED in situation.cue, situation.conversation
        if conversation.speaking and not used:
            return ()
        named = conversation.used[0] if used else conversation.found_ids
        seeds = _standing(situation, named[:_SEEDS])
        around = [self._around(situation, partition, memory) for partition, memory in seeds]
        if used:
            around += [
                await self._nearest(situation, partition, memory.id)
                for partition, memory in seeds[:_SEEDS_SEARCHED]
            ]
        # An answer's own memories first: one that the server served is not held yet.
        ids = dict.fromkeys(memory.id for _, memory in seeds) | dict.fromkeys(_in_turns(around))
        if not ids:
            return ()
        return [Proposal(self.name, list(ids)[: self._items], situation.version, worth=self._worth)]

    def _around(self, situation: Situation, partition: Partition, memory: Memory) -> list[str]:
        said = partition.look(lambda held, facets: said_around(held, facets, memory, reach=_REACH))
        related = [
            memory_id
            for each in situation.partitions
            for memory_id in each.look(
                lambda held, facets: related_by_key(held, facets, memory.key, limit=_RELATED)
            )
        ]
        return [*said, *memory.source.memory_ids, *related]

    async def _nearest(self, situation: Situation, partition: Partition, memory_id: str) -> list[str]:
        indexed = partition.indexed(memory_id)
        if indexed is None:
            return []
        query = Query(widened(indexed.vector), (), self._clock.wall(), limit=_NEAREST)
        return [hit.memory.id for hit in await search(situation.partitions, query)]


def _standing(situation: Situation, memory_ids: Iterable[str]) -> list[tuple[Partition, Memory]]:
    """Those that the session may see, with where they stand."""
    found = []
    for memory_id in memory_ids:
        partition = situation.partition_of(memory_id)
        memory = None if partition is None else partition.memory(memory_id)
        if partition is not None and memory is not None:
            found.append((partition, memory))
    return found


def _in_turns(lists: Iterable[Sequence[str]]) -> list[str]:
    """The first of each list, then the second of each, and so on."""
    return [each for each in chain.from_iterable(zip_longest(*lists)) if each is not None]
