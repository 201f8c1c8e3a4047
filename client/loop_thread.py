"""An event loop in a thread of its own, for callers that have none."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from precall.client.errors import ClientClosed

ResultT = TypeVar("ResultT")
_INTERRUPTED_SECONDS: Final = 1.0


class LoopThread:
    """Starts with ``start``, ends with ``close``; ``run`` and ``call`` may come from any other thread.

    Those threads may have an event loop that runs (a notebook's has): this one's is run in its own alone.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._loop is not None:
            raise ClientClosed("the client is open already")
        started = threading.Event()
        loop = asyncio.new_event_loop()

        def live() -> None:
            asyncio.set_event_loop(loop)
            loop.call_soon(started.set)
            loop.run_forever()
            loop.run_until_complete(_cancel_others())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

        self._thread = threading.Thread(target=live, name="precall-client", daemon=True)
        self._thread.start()
        self._loop = loop
        try:
            started.wait()
        except BaseException:
            self.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run to its end and return or raise what it does.

        An interrupt cancels it, and comes out when it has ended, or after a second: nothing goes on behind
        the back of who handles it. Raises ClientClosed when the client is closed meanwhile.
        """
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            coroutine.close()
            raise ClientClosed(
                "the client is not open: use it inside `with`"
                if loop is None
                else "a blocking call was made from the client's own thread: use AsyncClient there"
            )
        call = _Call(coroutine)
        try:
            loop.call_soon_threadsafe(call.begin)
            return call.result.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed before this was done") from None
        except BaseException:
            if not call.ended.is_set():  # an interrupt, at whatever moment it came
                loop.call_soon_threadsafe(call.give_up)
                call.ended.wait(_INTERRUPTED_SECONDS)
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Have it called soon, in the order of the calls of ``call`` and ``run``; returns at once."""
        if self._loop is None:
            raise ClientClosed("the client is not open: use it inside `with`")
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Cancel what still runs, and end the thread. May be called again, should it be interrupted."""
        if threading.current_thread() is self._thread:
            raise ClientClosed("the client cannot be closed from its own thread")
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join()


class _Call(Generic[ResultT]):
    """A coroutine on its way through the thread; ``begin`` and ``give_up`` run there."""

    def __init__(self, coroutine: Coroutine[Any, Any, ResultT]) -> None:
        self.result: concurrent.futures.Future[ResultT] = concurrent.futures.Future()
        self.ended = threading.Event()
        self._coroutine = coroutine
        self._task: asyncio.Task[ResultT] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._coroutine)
        self._task.add_done_callback(self._finish)

    def give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # the interrupt came before the call was handed over
            self._coroutine.close()
            self.ended.set()

    def _finish(self, task: asyncio.Task[ResultT]) -> None:
        if task.cancelled():
            self.result.cancel()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())
        self.ended.set()


async def _cancel_others() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
