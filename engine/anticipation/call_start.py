"""The predictor that speaks first: what matters before anything was said."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.clock import Clock
from precall.engine.index.adjacency import latest, most_important, with_facet
from precall.engine.index.partition import Partition

_ORDINARY_IMPORTANCE: Final = 0.5
"""What a memory has whose writer said nothing of it: no reason to be held."""


class CallStart:
    """Pinned memories, the end of the last conversation, then the important and the recent ones.

    Of the rungs that are not held whole, the narrowest first. Nobody asked for any of it, so it is worth less
    than what an utterance finds (`Proposal.worth`), and what is said soon takes its place.
    """

    name = "call_start"
    cues = Cue.OPENED

    def __init__(self, clock: Clock, *, items_per_group: int, worth: float = 0.2) -> None:
        """``items_per_group``: most memories of a rung that are pinned, and so on for the four."""
        self._clock = clock
        self._items = items_per_group
        self._worth = worth

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        if situation.conversation.latest is not None:  # the session was resumed, or somebody spoke at once
            return ()
        ids: dict[str, None] = {}
        for partition in situation.partitions:
            if partition.rung not in situation.complete:
                ids |= dict.fromkeys(self._prominent(partition, situation.conversation_id))
        return [Proposal(self.name, list(ids), situation.version, worth=self._worth)] if ids else ()

    def _prominent(self, partition: Partition, conversation_id: str) -> list[str]:
        now, limit = self._clock.wall(), self._items
        pinned = partition.look(
            lambda held, facets: with_facet(held, facets, ("pinned", "true"), now=now, limit=limit)
        )
        recent = partition.look(lambda held, _: latest(held, now=now, limit=limit))
        important = partition.look(
            lambda held, _: most_important(held, above=_ORDINARY_IMPORTANCE, now=now, limit=limit)
        )
        return [*pinned, *self._last_end(partition, recent, conversation_id), *important, *recent]

    def _last_end(self, partition: Partition, recent: Sequence[str], conversation_id: str) -> list[str]:
        """The last turns of the conversation before this one, the latest first."""
        now, limit = self._clock.wall(), self._items
        memories = (partition.memory(memory_id) for memory_id in recent)
        earlier = (
            memory.source.conversation_id
            for memory in memories
            if memory is not None and memory.source.conversation_id not in ("", conversation_id)
        )
        last = next(islice(earlier, 1), None)
        if last is None:
            return []
        facet = ("conversation", last)
        return partition.look(lambda held, facets: with_facet(held, facets, facet, now=now, limit=limit))
