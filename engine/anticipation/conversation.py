"""What was said so far in one conversation, as predictors need it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


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

    def observe(self, turn: Turn, *, partial: bool) -> None:
        """A partial turn replaces the previous partial; a final one ends it."""
        if partial:
            self._partial = turn
        else:
            self._partial = None
            self._turns.append(turn)

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
