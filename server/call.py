"""What a service method may know of the call that it answers, beside the request."""

import asyncio
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from precall.server.auth import Principal


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a call's time; ``name`` is the label of ``precall_stage_seconds`` as well."""

    name: str
    seconds: float


@dataclass(slots=True)
class Call:
    """One call in progress. ``deadline``: seconds on the monotonic clock; None: the caller waits forever."""

    method: str
    principal: Principal
    deadline: float | None
    started: float = field(default_factory=time.perf_counter)
    stages: list[Stage] = field(default_factory=list)

    def note(self, name: str, seconds: float) -> None:
        """Add a stage to the reply's timings and to the metrics."""
        self.stages.append(Stage(name, seconds))

    def finished_stages(self) -> Sequence[Stage]:
        """The stages so far and ``total``, the time since the call arrived."""
        self.note("total", time.perf_counter() - self.started)
        return self.stages


_current: ContextVar[Call] = ContextVar("precall_call")


def current_call() -> Call:
    """The call that the running task answers; the interceptor has authenticated it."""
    return _current.get()


def enter_call(call: Call) -> None:
    """Make ``call`` the current one of this task. Each call runs in a task of its own."""
    assert asyncio.current_task() is not None
    _current.set(call)
