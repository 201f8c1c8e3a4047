"""The predictor that retrieves with what is being said right now."""

from collections.abc import Sequence
from typing import Final

from precall.engine.anticipation.predictor import AnsweredQuery, Proposal, Situation
from precall.engine.clock import Clock
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search
from precall.scoring.fusion import keyword_share
from precall.scoring.query_terms import QueryTerms

CONTEXT_TURNS: Final = 3
_EVERYTHING_SENT: Final = 0.0


class RecentTurns:
    """Retrieves with the latest utterance and, once it is finished, with the last few turns together."""

    name = "recent_turns"

    def __init__(self, clock: Clock, *, items_per_query: int) -> None:
        self._clock = clock
        self._items = items_per_query

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        return [await self._retrieve(situation, text) for text in self._queries(situation)]

    def _queries(self, situation: Situation) -> list[str]:
        conversation = situation.conversation
        latest = conversation.latest
        if latest is None or not latest.text.strip():
            return []
        texts = [latest.text]
        if not conversation.speaking:
            texts.append(" ".join(turn.text for turn in conversation.recent(CONTEXT_TURNS)))
        return list(dict.fromkeys(texts))

    async def _retrieve(self, situation: Situation, text: str) -> Proposal:
        vector = await situation.model.embed_turn(text)
        asked = QueryTerms.of(text)
        share = keyword_share(asked, situation.model.card.scripts)
        # What may be served only later is sent now: the floor must still be true then.
        query = Query(
            vector,
            asked.terms,
            self._clock.wall(),
            limit=self._items,
            include_upcoming=True,
            keyword_share=share,
        )
        hits = await search(situation.partitions, query)
        floor = hits[-1].score.total if len(hits) == self._items else _EVERYTHING_SENT
        return Proposal(
            predictor=self.name,
            memory_ids=[hit.memory.id for hit in hits],
            version=situation.version,
            query=AnsweredQuery(vector, frozenset(asked.terms), floor, share),
        )
