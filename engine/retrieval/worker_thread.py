"""A thread that runs one function at a time, and that nothing has to wait for."""

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

from precall.engine.errors import Draining

ResultT = TypeVar("ResultT")
_Jobs: TypeAlias = SimpleQueue[Callable[[], None] | None]


class WorkerThread:
    """First come, first served. The thread begins with this object and ends with it, or after ``finish``.

    It is a daemon: those of a ``ThreadPoolExecutor`` are waited for at the end of the process, and a forward
    pass that hangs would keep it from ending.
    """

    def __init__(self, name: str) -> None:
        """Starts the thread: if the system has none left, that is told here and not by the first call."""
        self._jobs: _Jobs = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, self._jobs.put, None)

    async def run(self, function: Callable[[], ResultT]) -> ResultT:
        """What ``function`` returns or raises; a cancelled caller's does not begin. Raises Draining after
        ``finish``.
        """
        if not self._end.alive:
            raise Draining(
                "the server is shutting down: send the request to another one, or again in a moment"
            )
        answer: Future[ResultT] = Future()

        def job() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except BaseException as error:  # the caller's to handle: the thread goes on
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self._jobs.put(job)
        return await asyncio.wrap_future(answer)

    async def finish(self, seconds: float) -> bool:
        """End the thread after what it was given; whether it ended within ``seconds``. Twice is as once."""
        self._end()
        await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()


def _work(jobs: _Jobs) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # or it would keep its pass in memory until the next one
