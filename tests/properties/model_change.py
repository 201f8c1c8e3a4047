"""The documented steps from one embedding model to another, as one reads them."""

from dataclasses import dataclass
from enum import Enum

from precall.engine.memory.migration import MigrationState as State
from tests.properties.vectors import other_than

STEPS = ("start", "switch", "roll back", "finish")


class Answer(Enum):
    """What a step is answered with; EITHER where that depends on how far the background has come."""

    DONE = "done"
    REFUSED = "refused"
    EITHER = "either"


@dataclass
class ModelChange:
    """Of one tenant. ``origin`` and ``goal``: fingerprints of the newest migration; empty: there was none.

    ``at_rest``: nothing is left to do in the background for sure. Then a state of BACKFILLING is ready to be
    switched; FINISHED stands for FINISHING until then.
    """

    serving: str
    state: State | None = None
    origin: str = ""
    goal: str = ""
    at_rest: bool = True

    @property
    def other(self) -> str:
        """The second model whose vectors are stored with each write; empty: none."""
        if self.state is State.BACKFILLING:
            return self.goal
        return self.origin if self.state is State.SWITCHED else ""

    @property
    def answering(self) -> set[str]:
        """Models whose vectors a search may come with."""
        return {self.serving, self.other} if self.state is State.SWITCHED else {self.serving}

    @property
    def needed(self) -> set[str]:
        """Models without which a server cannot serve the tenant."""
        return self.answering

    def answer(self, step: str, goal: str) -> Answer:
        """To a step; ``goal``: where a start leads."""
        if step == "start":
            return self._answer_to_start(goal)
        if step == "switch" and self.state is State.BACKFILLING:
            return Answer.DONE if self.at_rest else Answer.EITHER
        if step == "roll back" and self.state in (State.BACKFILLING, State.SWITCHED):
            return Answer.DONE
        return Answer.DONE if step == "finish" and self.state is State.SWITCHED else Answer.REFUSED

    def take(self, step: str, goal: str) -> None:
        if step == "start":
            if self.state is not State.BACKFILLING:  # else it goes on
                self.state, self.origin, self.goal = State.BACKFILLING, self.serving, goal
                self.at_rest = False
        elif step == "switch":
            self.state, self.serving, self.at_rest = State.SWITCHED, self.goal, True
        elif step == "roll back":
            self.state, self.serving, self.at_rest = State.ROLLED_BACK, self.origin, False
        else:
            self.state, self.at_rest = State.FINISHED, False

    def onward(self, *, back: bool) -> str:
        """The step that comes next, or the one that leads back where there is one."""
        if self.state is State.BACKFILLING:
            return "roll back" if back else "switch"
        if self.state is State.SWITCHED:
            return "roll back" if back else "finish"
        return "start"

    def would_serve(self, step: str) -> str:
        """Who serves once the step is taken."""
        after = ModelChange(**vars(self))
        after.take(step, other_than(self.serving))
        return after.serving

    def _answer_to_start(self, goal: str) -> Answer:
        if self.state is State.BACKFILLING:
            return Answer.DONE if goal == self.goal else Answer.REFUSED
        if self.state is State.SWITCHED or goal == self.serving:
            return Answer.REFUSED
        return Answer.EITHER if self.state is State.FINISHED and not self.at_rest else Answer.DONE
