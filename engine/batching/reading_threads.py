"""The threads on which texts are read."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from precall.engine.batching.admission import draining
from precall.engine.errors import ModelUnavailable

Result = TypeVar("Result")

_START_SECONDS: Final = 30.0
"""How long threads may take to begin: they do nothing but that."""


class ReadingThreads:
    """``COUNT`` threads of one kind, known by its name."""

    COUNT: Final = 2

    def __init__(self, kind: str) -> None:
        self._closed = False
        self._pool = ThreadPoolExecutor(self.COUNT, thread_name_prefix=f"precall-tokenizer-{kind}")

    def start(self) -> None:
        """Start all of them now: a thread that the system refuses is told here, not by some later call.

        Raises ``ModelUnavailable``.
        """
        # Each holds its thread until all have one, so the pool cannot give two of them the same.
        met = threading.Barrier(self.COUNT)
        try:
            begun = [self._pool.submit(met.wait, _START_SECONDS) for _ in range(self.COUNT)]
            for thread in begun:
                thread.result()
        except (RuntimeError, MemoryError) as error:  # a broken barrier is a RuntimeError
            met.abort()
            raise ModelUnavailable(
                f"the threads of the tokenizer cannot be started ({error}): allow the server more threads "
                "and memory"
            ) from error

    async def run(self, read: Callable[[], Result]) -> Result:
        """What ``read`` gives, computed on one of them. Raises ``Draining`` after ``close``."""
        if self._closed:
            raise draining()
        return await asyncio.get_running_loop().run_in_executor(self._pool, read)

    def close(self) -> None:
        """What was asked for before is still read."""
        self._closed = True
        self._pool.shutdown(wait=False)
