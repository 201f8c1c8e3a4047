"""The keyword weights of a fake client's memories, by the server's rules."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.client.memory import Memory
from precall.scoring import keyword, terms
from precall.scoring.keyword import CONTEXT_SHARES, KeywordIndex

_GAP: Final = timedelta(hours=1)
"""Between two turns after which a conversation was resumed rather than went on."""


def keyword_scores(memories: Sequence[Memory], query_terms: Sequence[str]) -> NDArray[np.float32]:
    """One score a memory, of all that a reader sees, current and in order of arrival; shape ``(count,)``.

    A turn (an episode that names its conversation) takes in the words of the turns before it on its rung,
    so that an answer is found by what was asked.
    """
    own = [terms.analyze(" ".join((memory.text, *memory.questions))) for memory in memories]
    index = KeywordIndex()
    for place in range(len(memories)):
        before = [own[earlier] for earlier in _turns_before(memories, place)]
        index.add(keyword.document_impacts(own[place], before))
    return index.scores(index.statistics(query_terms).weights(query_terms))


def _turns_before(memories: Sequence[Memory], place: int) -> list[int]:
    """Places of the turns that the one at ``place`` takes in, the latest first."""
    turn = memories[place]
    if not _is_turn(turn):
        return []
    earlier = [
        (memory.event_time, other)
        for other, memory in enumerate(memories)
        if _is_turn(memory)
        and memory.scope == turn.scope
        and memory.source.conversation_id == turn.source.conversation_id
        and (memory.event_time, other) < (turn.event_time, place)
    ]
    taken: list[int] = []
    following = turn.event_time
    for event_time, other in sorted(earlier, reverse=True)[: len(CONTEXT_SHARES)]:
        if following - event_time > _GAP:
            break
        taken.append(other)
        following = event_time
    return taken


def _is_turn(memory: Memory) -> bool:
    return memory.kind == "episode" and bool(memory.source.conversation_id)
