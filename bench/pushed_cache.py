"""One session's cache, filled by the pushes that a server would make, with nothing between the two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.client.cache import SessionCache
from precall.client.lookup import Lookup
from precall.engine.anticipation.conversation import Conversation, Turn, TurnRole
from precall.engine.anticipation.events import Push, StreamEvent
from precall.engine.anticipation.held import HeldSet
from precall.engine.anticipation.lease import Lease
from precall.engine.anticipation.predictor import AnsweredQuery, Proposal
from precall.engine.anticipation.recent_turns import MOST_ITEMS, TurnsQuery, answer_size, queries, together
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.clock import SystemClock
from precall.engine.encoding.card import ModelCard
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.fusion import keyword_share
from precall.scoring.negation import negates
from precall.scoring.query_terms import QueryTerms
from precall.scoring.ranking import RankingWeights
from precall.server.mapping.events import EventMapper

RESULTS: Final = 10
_SETTINGS: Final = AnticipationSettings()
LADDER: Final = Ladder(("customer",))
_WEIGHTS: Final = RankingWeights()


@dataclass(frozen=True, slots=True)
class AskedRung:
    """A rung of the top level, and the vectors of what is asked of it. ``now``: Unix seconds.

    ``rows``: the memories' vectors, float32, ``(memories, dimension)``; a memory's id is its row.
    """

    partition: Partition
    card: ModelCard
    vectors: Mapping[str, NDArray[np.float32]]
    now: float
    rows: NDArray[np.float32]

    def query(self, said: Sequence[str], limit: int) -> Query:
        """``said``: one text, or turns that are asked with together."""
        terms = QueryTerms.of(" ".join(said))
        share = keyword_share(terms, self.card.scripts)
        vector = together([self.vectors[text] for text in said])
        return Query(vector, terms.terms, self.now, limit=limit, keyword_share=share)

    def nearest(self, text: str, count: int) -> list[str]:
        """Ids of the memories whose vectors are nearest to the text's."""
        cosines = self.rows @ self.vectors[text]
        return [str(row) for row in np.argsort(-cosines)[:count]]

    async def embed_turn(self, text: str) -> NDArray[np.float32]:
        return self.vectors[text]


def session_on(rung: AskedRung, items: int) -> Session:
    """The server's side of one session that sees the rung; nobody reads its stream. ``items``: its room."""
    clock = SystemClock()
    stream = Stream("stream", "tenant", rung.card, Lease(clock, 1.0), clock, patience=1.0, capacity=1)
    session = Session(
        id="session",
        tenant_id="tenant",
        conversation_id="",
        rung=rung.partition.rung,
        ladder=LADDER,
        model=rung,
        partitions=[rung.partition],
        stream=stream,
        held=HeldSet(max_items=items, max_bytes=1 << 40, coverages_kept=_SETTINGS.coverages_kept),
        conversation=Conversation(_SETTINGS.turns_kept),
        parts_waiting=1,
    )
    session.announced_version = 1
    return session


class PushedCache:
    """Filled as a conversation goes on; what stands in it came with the query in ``brought_by``."""

    def __init__(self, rung: AskedRung, items: int) -> None:
        self._rung = rung
        self._answer_items = answer_size(items, least=_SETTINGS.items_per_query, most=MOST_ITEMS)
        self._session = session_on(rung, items)
        self._mapper = EventMapper(LADDER, rung.card.fingerprint, rung.card.dimension)
        self.cache = SessionCache(LADDER.scope(rung.partition.rung), max_items=items, max_bytes=1 << 40)
        self.cache.adopt(
            fingerprint=rung.card.fingerprint, maximum_age=float("inf"), scripts=rung.card.scripts
        )
        self.brought_by: dict[str, str] = {}
        self._take(self._session.open_push(readings=(), part_items=_SETTINGS.push_part_items), "")

    @property
    def held_ids(self) -> list[str]:
        return list(self.cache.stamps())

    def hear(self, text: str, *, partial: bool) -> None:
        """The next words of the conversation: what they retrieve is pushed."""
        conversation = self._session.conversation
        if conversation.observe(Turn(TurnRole.USER, text), partial=partial):
            for asked in queries(conversation):
                self._answer(asked)

    def lookup(self, text: str) -> Lookup:
        """As a read does it, its query's vector made already."""
        return self.cache.lookup(
            self._rung.vectors[text],
            QueryTerms.of(text),
            limit=RESULTS,
            now=self._rung.now,
            elapsed=0.0,
            weights=_WEIGHTS,
            question=text,
        )

    def hold(self, memory_ids: Sequence[str]) -> None:
        """Have these held, by what they may."""
        self._propose(Proposal("given", memory_ids, self._session.announced_version), "")

    def _answer(self, asked: TurnsQuery) -> None:
        query = self._rung.query([turn.text for turn in asked.turns], self._answer_items)
        hits = search_fast([self._rung.partition], query)
        floor = hits[-1].score.total if len(hits) == self._answer_items else 0.0
        terms = frozenset(query.terms)
        answered = AnsweredQuery(query.vector, terms, floor, query.keyword_share, negates(asked.text))
        ids = [hit.memory.id for hit in hits]
        self._propose(Proposal("recent_turns", ids, self._session.announced_version, answered), asked.text)

    def _propose(self, proposal: Proposal, text: str) -> None:
        pushes = self._session.answer_push(
            proposal, caused_at=0.0, caused_by_sequence=0, part_items=_SETTINGS.push_part_items
        )
        self._take(pushes, text)

    def _take(self, pushes: Sequence[Push], text: str) -> None:
        for push in pushes:
            self.cache.apply(self._mapper.message(StreamEvent(1, push)).push, elapsed=0.0)
            for memory_id in push.evicted_ids:
                self.brought_by.pop(memory_id, None)
            for item in push.items:
                self.brought_by[item.indexed.memory.id] = text
