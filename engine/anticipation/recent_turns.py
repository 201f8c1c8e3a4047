"""The predictor that retrieves with what is being said right now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Conversation, Turn
from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.anticipation.text_answer import answer_text
from precall.engine.clock import Clock
from precall.scoring.vectors import unit

CONTEXT_TURNS: Final = 3
MOST_ITEMS: Final = 512
"""Of one answer, however much a session may hold. Of a room of 1,024 two answers of 512 predicted typed turns
best, beside 200, 400 and 1,024 (`precall.bench.coverage_lab` on LoCoMo).
"""


@dataclass(frozen=True, slots=True)
class TurnsQuery:
    """What is retrieved with: one turn, or several together, the oldest first."""

    turns: Sequence[Turn]

    @property
    def text(self) -> str:
        return " ".join(turn.text for turn in self.turns)


class RecentTurns:
    """Retrieves with the latest utterance and, once it is finished, with the last few turns together.

    ``items_per_query``: of one answer at least, and ``most_items`` at most: `answer_size`.
    """

    name = "recent_turns"
    cues = Cue.SAID

    def __init__(self, clock: Clock, *, items_per_query: int, most_items: int = 0) -> None:
        self._clock = clock
        self._items = items_per_query
        self._most_items = max(most_items, items_per_query)

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        items = answer_size(situation.room, least=self._items, most=self._most_items)
        made: dict[Turn, NDArray[np.float32]] = {}
        return [
            await answer_text(
                situation,
                query.text,
                predictor=self.name,
                items=items,
                clock=self._clock,
                vector=together([await _vector(situation, turn, made) for turn in query.turns]),
            )
            for query in queries(situation.conversation)
        ]


def answer_size(room: int, *, least: int, most: int) -> int:
    """Items of one answer: half of what the session may hold, ``least`` to ``most``, never more than it."""
    if not room:
        return least
    return min(room, max(least, min(room // 2, most)))


def queries(conversation: Conversation) -> list[TurnsQuery]:
    """What is retrieved with now, the utterance that may still go on first."""
    latest = conversation.latest
    if latest is None or not latest.text.strip():
        return []
    recent = () if conversation.speaking else conversation.recent(CONTEXT_TURNS)
    return [TurnsQuery((latest,)), *([TurnsQuery(recent)] if len(recent) > 1 else [])]


def together(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """What stands for several turns: the direction of the sum of their vectors, float32, ``(dimension,)``.

    To embed their texts as one finds no more: of typed turns with 1,024 held the server's first three were
    among the held for .876 of the reads with the sum and .882 with the text (363 reads of the fitted part,
    `precall.bench.coverage_lab`). And each turn is embedded once, be it by its client.
    """
    if len(vectors) == 1:
        return vectors[0]
    try:
        return unit(np.sum(vectors, axis=0))
    except ValueError:  # they cancel out, which no model's do; but clients send them
        return vectors[-1]


async def _vector(
    situation: Situation, turn: Turn, made: dict[Turn, NDArray[np.float32]]
) -> NDArray[np.float32]:
    """``made``: of turns that had none when they were looked up; it is added to."""
    if turn.vector is not None:
        return turn.vector
    if turn not in made:
        made[turn] = await situation.model.embed_turn(turn.text)
        situation.conversation.note_vector(turn, made[turn])
    return made[turn]
