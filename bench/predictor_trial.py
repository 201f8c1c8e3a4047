"""Conversations played through the server's own sessions: what each predictor brought, and its use.

There is no network and no client: what a session holds is looked at where the server knows it.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.coverage_corpus import RUNG, Exchange
from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.conversation import Turn, TurnRole
from precall.engine.anticipation.observer import SilentObserver
from precall.engine.anticipation.predictor_set import PredictorSet
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.encoding.card import ModelCard
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder
from precall.engine.retrieval.query import Query
from precall.engine.retrieval.search import search_fast
from precall.scoring.fusion import keyword_share
from precall.scoring.query_terms import QueryTerms

TOP: Final = 3
"""Of the server's results: a read is well served when the cache holds these."""

_USED: Final = 3
"""Results that an answer is said to be built on: the agent names the first ones of each read."""

_TENANT: Final = "bench"
_A_LONG_TIME: Final = 3_600.0


class StandingClock:
    """A moment after everything that was said."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wall(self) -> float:
        return self._seconds

    def monotonic(self) -> float:
        return self._seconds


class TextTable:
    """A model that knows the vectors of all texts that are asked."""

    def __init__(self, card: ModelCard, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        self.card = card
        self.vectors = vectors

    async def embed_turn(self, text: str) -> NDArray[np.float32]:
        return self.vectors[text]


@dataclass(slots=True)
class Worth(SilentObserver):
    """``held_top``: reads whose first three the session held; ``covered``: those of them while a coverage
    stood, without which a cache serves nothing. ``needed``: in how many of ``held_top`` a predictor had
    brought one of the three. ``pushed_items``, ``used`` and ``wasted``: by predictor.
    """

    reads: int = 0
    held_top: int = 0
    covered: int = 0
    needed: Counter[str] = field(default_factory=Counter)
    pushed_items: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    wasted: Counter[str] = field(default_factory=Counter)

    def pushed(self, predictor: str, items: int) -> None:
        self.pushed_items[predictor] += items

    def dropped(self, predictor: str, items: int, *, used: bool) -> None:
        (self.used if used else self.wasted)[predictor] += items


class Trial:
    """Sessions of one server, one after another: what one teaches the next ones know."""

    def __init__(
        self,
        partition: Partition,
        model: TextTable,
        *,
        items: int,
        predictors: Sequence[str],
        clock: StandingClock,
    ) -> None:
        settings = AnticipationSettings(complete_below=0, max_items=items, stream_queue_events=10**6)
        everyone = PredictorSet.of(settings, clock)
        self._partition = partition
        self._model = model
        self._clock = clock
        self.worth = Worth()
        self._anticipator = Anticipator(
            settings,
            [each for each in everyone.predictors if each.name in predictors],
            clock,
            self.worth,
            everyone.learners,
        )

    def forget_counts(self) -> None:
        """Count from here on; what was learned stays."""
        for counted in (self.worth.needed, self.worth.pushed_items, self.worth.used, self.worth.wasted):
            counted.clear()
        self.worth.reads = self.worth.held_top = self.worth.covered = 0

    async def play(self, exchange: Exchange, session_id: str) -> None:
        """Each utterance is read for once its words are known, and before anything is predicted from them."""
        stream = self._anticipator.open_stream(_TENANT, session_id, self._model.card)
        # Else its queue fills, and nobody predicts for a client that reads nothing.
        reading = asyncio.create_task(self._take_all(stream))
        session = self._anticipator.open_session(
            tenant_id=_TENANT,
            stream_id=session_id,
            session_id=session_id,
            conversation_id="",
            rung=RUNG,
            ladder=Ladder(("everyone",)),
            model=self._model,
            partitions=[self._partition],
            version=1,
        )
        await self._settle()
        for utterance in exchange.utterances:
            for partial in utterance.partials:
                await self._say(session, Turn(TurnRole.USER, partial), partial=True)
            used = self._read(session, utterance.text) if utterance.group else ()
            await self._say(session, Turn(TurnRole.USER, utterance.text, tuple(used)), partial=False)
        self._anticipator.close_stream(stream, "played")
        await reading

    async def _say(self, session: Session, turn: Turn, *, partial: bool) -> None:
        self._anticipator.observe(_TENANT, session.id, session.sequence + 1, turn, partial=partial)
        await self._settle()

    async def _take_all(self, stream: Stream) -> None:
        while await stream.next(lambda: self._anticipator.heartbeat(_TENANT), _A_LONG_TIME) is not None:
            pass

    async def _settle(self) -> None:
        await self._anticipator.settle()

    def _read(self, session: Session, text: str) -> Sequence[str]:
        """What the read is answered with, as the agent names it afterwards."""
        asked = QueryTerms.of(text)
        query = Query(
            self._model.vectors[text],
            asked.terms,
            self._clock.wall(),
            keyword_share=keyword_share(asked, self._model.card.scripts),
        )
        found = [hit.memory.id for hit in search_fast([self._partition], query)]
        brought = {i: session.held.predictor_of(i) for i in found[:TOP]}
        by = {predictor for predictor in brought.values() if predictor is not None}
        worth = self.worth
        worth.reads += 1
        if None not in brought.values():
            worth.held_top += 1
            worth.covered += session.held.claims > 0
            worth.needed.update(by)
        session.held.use(found)
        return found[:_USED]
