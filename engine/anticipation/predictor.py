"""What a predictor is: from a conversation so far to memories that the next reads may need."""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.conversation import Conversation
from precall.engine.anticipation.conversation_model import ConversationModel
from precall.engine.anticipation.cue import NOTHING, Cue
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Rung


@dataclass(frozen=True, slots=True)
class AnsweredQuery:
    """The query that a proposal answers, and the total score under which it left memories out.

    ``keyword_share``: of the fusion by which the floor is a total. ``negated``: the query denies something.
    """

    vector: NDArray[np.float32]
    terms: frozenset[str]
    floor: float
    keyword_share: float
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """Memories worth holding, best first, by whom, as of which version, and for which query.

    ``query``: None where the memories answer none: then nothing can be said of what was left out.
    ``worth``: how likely the next read needs some of them, in (0, 1], beside other proposals: when the
    budget is full the least worth goes first (`HeldSet`).
    """

    predictor: str
    memory_ids: Sequence[str]
    version: int
    query: AnsweredQuery | None = None
    worth: float = 1.0


@dataclass(frozen=True, slots=True)
class Situation:
    """What a predictor may look at: what was said, and the rungs a session may see, as ``model`` has them.

    ``partitions``: the narrowest first. ``complete``: rungs that the session holds whole. ``cue``: why
    the predictor is asked; several occasions since it was last asked come as one. ``room``: items that the
    session may hold; 0: not told.
    """

    model: ConversationModel
    partitions: Sequence[Partition]
    conversation: Conversation
    version: int
    tenant_id: str = ""
    conversation_id: str = ""
    complete: AbstractSet[Rung] = field(default_factory=frozenset)
    cue: Cue = NOTHING
    room: int = 0

    def partition_of(self, memory_id: str) -> Partition | None:
        """Where a memory stands that the session may see, or None."""
        return next((partition for partition in self.partitions if memory_id in partition), None)


class Predictor(Protocol):
    @property
    def name(self) -> str:
        """Stands beside each item that it brought, in replies and in metrics."""
        ...

    @property
    def cues(self) -> Cue:
        """The occasions on which it is asked."""
        ...

    async def propose(self, situation: Situation) -> Sequence[Proposal]:
        """What the next reads may need; empty when there is nothing to say.

        It may take its time: each predictor of a session runs by itself, and is asked again, with what is
        newest then, once it has answered. Raises PrecallError for a guess that could not be made.
        """
        ...


class Learner(Protocol):
    """What a predictor is that remembers beyond a conversation. Only the event loop may call in."""

    def learn(self, situation: Situation) -> None:
        """The newest turn said which memories it was built on."""
        ...

    def forget(self, tenant_id: str, memory_ids: Collection[str]) -> None:
        """These are gone: nothing of their ids may stay."""
        ...

    def forget_tenant(self, tenant_id: str) -> None: ...
