"""What a predictor is: from a conversation so far to memories that the next reads may need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Conversation
from precall.engine.anticipation.conversation_model import ConversationModel
from precall.engine.index.partition import Partition


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """The query that a proposal answers, and the total score under which it left memories out.

    ``keyword_share``: of the fusion by which the floor is a total.
    """

    vector: NDArray[np.float32]
    terms: frozenset[str]
    floor: float
    keyword_share: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """Memories worth holding, best first, by whom, as of which version, and for which query."""

    predictor: str
    memory_ids: Sequence[str]
    version: int
    query: AnsweredQuery


@dataclass(frozen=True, slots=True)
class Situation:
    """What a predictor may look at: what was said, and the rungs a session may see, as ``model`` has them."""

    model: ConversationModel
    partitions: Sequence[Partition]
    conversation: Conversation
    version: int


class Predictor(Protocol):
    @property
    def name(self) -> str:
        """Stands beside each item that it brought, in replies and in metrics."""
        ...

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        """What the next reads may need; empty when there is nothing to say."""
        ...
