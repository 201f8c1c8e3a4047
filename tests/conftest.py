"""What every room's tests share: where the project and its data are, and a clock that jumps."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the shared data sets; a test that needs it is skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the data sets in ../shared/data, which are not part of the project")
    return folder


class _JumpingSelector(selectors.DefaultSelector):  # type: ignore[valid-type,misc]
    """Instead of waiting for a timer, moves the clock to it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if timeout is None and not ready:
            raise RuntimeError("every task waits for something that no timer will bring: a deadlock")
        if not ready and timeout:
            self.now += timeout
        return ready


class _VirtualClockLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


@pytest.fixture
def run_on_virtual_clock() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs a coroutine on a loop whose clock starts at 0 and jumps from timer to timer: exact, no waiting.

    For code that waits on timers and other tasks alone, not on sockets or threads.
    """
    with asyncio.Runner(loop_factory=_VirtualClockLoop) as runner:
        yield runner.run
