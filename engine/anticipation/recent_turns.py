"""The predictor that retrieves with what is being said right now."""

from collections.abc import Sequence
from typing import Final

from precall.engine.anticipation.conversation import Conversation
from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.predictor import Proposal, Situation
from precall.engine.anticipation.text_answer import answer_text
from precall.engine.clock import Clock

CONTEXT_TURNS: Final = 3
MOST_ITEMS: Final = 512
"""Of one answer, however much a session may hold. Of a room of 1,024 two answers of 512 predicted typed turns
best, beside 200, 400 and 1,024 (`precall.bench.coverage_lab` on LoCoMo).
"""


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
        return [
            await answer_text(situation, text, predictor=self.name, items=items, clock=self._clock)
            for text in texts_to_ask(situation.conversation)
        ]


def answer_size(room: int, *, least: int, most: int) -> int:
    """Items of one answer: half of what the session may hold, ``least`` to ``most``, never more than it."""
    if not room:
        return least
    return min(room, max(least, min(room // 2, most)))


def texts_to_ask(conversation: Conversation) -> list[str]:
    """What is retrieved with now, the utterance that may still go on first."""
    latest = conversation.latest
    if latest is None or not latest.text.strip():
        return []
    texts = [latest.text]
    if not conversation.speaking:
        texts.append(" ".join(turn.text for turn in conversation.recent(CONTEXT_TURNS)))
    return list(dict.fromkeys(texts))
