"""An event loop in a thread of its own, for callers that have none."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from precall.client.errors import ClientClosed

ResultT = TypeVar("ResultT")


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
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

        self._thread = threading.Thread(target=live, name="precall-client", daemon=True)
        self._thread.start()
        started.wait()
        self._loop = loop

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run to its end and return or raise what it does. An interrupt cancels it."""
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            coroutine.close()
            raise ClientClosed(
                "the client is not open: use it inside `with`"
                if loop is None
                else "a blocking call was made from the client's own thread: use AsyncClient there"
            )
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Have it called soon, in the order of the calls of ``call`` and ``run``; returns at once."""
        if self._loop is None:
            raise ClientClosed("the client is not open: use it inside `with`")
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self.run(_cancel_others())
        self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _cancel_others() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
