"""What every keyword weight of a file has to be, worked out from its memories alone."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

from precall.engine.memory.memory import Memory, MemoryKind, MemoryState
from precall.scoring.keyword import document_impacts
from precall.scoring.terms import analyze

HOUR = timedelta(hours=1)


def is_turn(memory: Memory) -> bool:
    return (
        memory.kind is MemoryKind.EPISODE
        and memory.source.conversation_id != ""
        and memory.state is MemoryState.CURRENT
    )


def weights(memories: Sequence[Memory]) -> dict[str, dict[str, float]]:
    """Id -> term -> weight. ``memories``: all of a file, history included, in order of arrival."""
    return {memory.id: document_impacts(_terms(memory), _before(memory, memories)) for memory in memories}


def _before(memory: Memory, memories: Sequence[Memory]) -> list[list[str]]:
    if not is_turn(memory):
        return []
    place = (memory.rung, memory.source.conversation_id)
    conversation = [m for m in memories if is_turn(m) and (m.rung, m.source.conversation_id) == place]
    conversation.sort(key=lambda m: m.event_time)  # stable: of one moment in order of arrival
    said = conversation[: [m.id for m in conversation].index(memory.id) + 1][::-1]
    near = []
    for later, earlier in pairwise(said[:3]):
        if later.event_time - earlier.event_time > HOUR:
            break
        near.append(_terms(earlier))
    return near


def _terms(memory: Memory) -> list[str]:
    return analyze(" ".join((memory.text, *memory.questions)))
