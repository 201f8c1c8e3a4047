"""What was said so far in one conversation, and built on, as predictors need it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.cue import NOTHING, Cue
from precall.scoring.terms import analyze

ANSWERS_KEPT: Final = 3
USED_IDS_KEPT: Final = 16
"""Of one answer: an agent that names more has named what it was given, not what it used."""


class TurnRole(Enum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Turn:
    """``used_ids``: the memories that it was built on, the most important first, as the agent says.

    ``vector``: of the text as a question, by the model of the session: float32 unit vector, ``(dimension,)``;
    None: nobody has made it yet.
    """

    role: TurnRole
    text: str
    used_ids: tuple[str, ...] = ()
    vector: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)


class Conversation:
    """The last turns, the one that is still being spoken, and the memories that mattered in them.

    ``found_ids``: what the newest utterance found, best first. Ids are an agent's word or of some moments
    ago: whoever uses one asks the partitions first whether the session may see it, and whether it stands.
    """

    def __init__(self, turns_kept: int) -> None:
        self._turns: deque[Turn] = deque(maxlen=turns_kept)
        self._partial: Turn | None = None
        self._partial_terms: set[str] = set()
        self._used: deque[tuple[str, ...]] = deque(maxlen=ANSWERS_KEPT)
        self.found_ids: Sequence[str] = ()

    def observe(self, turn: Turn, *, partial: bool) -> Cue:
        """A partial turn replaces the previous partial; a final one ends it.

        Returns what there is to predict from. A partial that added nothing but grammar to the one before
        retrieves what that one did, and what an answer was built on is known at its end.
        """
        terms = set(analyze(turn.text))
        said_more = not partial or self._partial is None or terms != self._partial_terms
        cue = Cue.SAID if said_more else NOTHING
        self._partial, self._partial_terms = (turn, terms) if partial else (None, set())
        if not partial:
            self._turns.append(turn)
            if used := tuple(dict.fromkeys(turn.used_ids))[:USED_IDS_KEPT]:
                self._used.appendleft(used)
                cue |= Cue.USED
        return cue

    @property
    def latest(self) -> Turn | None:
        """The turn being spoken, else the last one that was."""
        return self._partial or (self._turns[-1] if self._turns else None)

    @property
    def speaking(self) -> bool:
        """Whether the latest turn is still a partial one."""
        return self._partial is not None

    @property
    def used(self) -> Sequence[Sequence[str]]:
        """The ids that each of the last answers was built on, the latest answer first; none is empty."""
        return tuple(self._used)

    def recent(self, count: int) -> Sequence[Turn]:
        """The last ``count`` finished turns, oldest first."""
        return list(self._turns)[-count:]

    def note_vector(self, turn: Turn, vector: NDArray[np.float32]) -> None:
        """Somebody made a turn's vector: nobody has to make it again. A turn that is past is passed over."""
        for place, each in enumerate(self._turns):
            if each is turn:
                self._turns[place] = replace(turn, vector=vector)

    def forget_vectors(self) -> None:
        """Another model serves from here on."""
        self._turns = deque((replace(turn, vector=None) for turn in self._turns), self._turns.maxlen)
        if self._partial is not None:
            self._partial = replace(self._partial, vector=None)
