"""What was said so far in one conversation, as predictors need it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from precall.scoring.terms import analyze


class TurnRole(Enum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Turn:
    role: TurnRole
    text: str


class Conversation:
    """The last turns, and the one that is still being spoken."""

    def __init__(self, turns_kept: int) -> None:
        self._turns: deque[Turn] = deque(maxlen=turns_kept)
        self._partial: Turn | None = None
        self._partial_terms: set[str] = set()

    def observe(self, turn: Turn, *, partial: bool) -> bool:
        """A partial turn replaces the previous partial; a final one ends it.

        Returns whether there is something new to predict from: a partial that added nothing but grammar to
        the one before retrieves what that one did.
        """
        terms = set(analyze(turn.text))
        said_more = not partial or self._partial is None or terms != self._partial_terms
        self._partial, self._partial_terms = (turn, terms) if partial else (None, set())
        if not partial:
            self._turns.append(turn)
        return said_more

    @property
    def latest(self) -> Turn | None:
        """The turn being spoken, else the last one that was."""
        return self._partial or (self._turns[-1] if self._turns else None)

    @property
    def speaking(self) -> bool:
        """Whether the latest turn is still a partial one."""
        return self._partial is not None

    def recent(self, count: int) -> Sequence[Turn]:
        """The last ``count`` finished turns, oldest first."""
        return list(self._turns)[-count:]
