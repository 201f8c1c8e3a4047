"""Queries to vectors inside the agent's process."""

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.scoring.approximation import Approximation


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """``vector``: float32, unit length, shape ``(dimension,)``. ``truncated``: its beginning was used.

    ``approximation``: how far the vector may lie from the model's own; None: it is that.
    """

    vector: NDArray[np.float32]
    truncated: bool = False
    approximation: Approximation | None = None


class QueryEncoder(Protocol):
    """Anything that embeds queries in the space of the server's index; users may bring their own."""

    @property
    def model_fingerprint(self) -> str:
        """Of the server's model whose space the vectors live in."""
        ...

    async def encode(self, text: str) -> EncodedQuery:
        """The vector of a query. Deterministic; safe to call many times at once."""
        ...

    def warm(self, text: str) -> None:
        """Hear that a text may be asked for soon; must return at once and may do nothing."""
        ...


class TextModel(Protocol):
    """A loaded model: synchronous and not thread-safe."""

    @property
    def model_fingerprint(self) -> str: ...

    def encode(self, text: str) -> EncodedQuery: ...


class LocalEncoder:
    """Runs one model in one worker thread, off the event loop.

    What was encoded lately is remembered, and the same text in flight is computed once: a read of what was
    just observed costs nothing. At most one warm-up waits, the newest, so that a read never queues behind
    many.
    """

    def __init__(self, model: TextModel, *, remembered: int) -> None:
        self._model = model
        self._remembered = remembered
        self._known: OrderedDict[str, EncodedQuery] = OrderedDict()
        self._running: dict[str, asyncio.Future[EncodedQuery]] = {}
        self._next_warm: str | None = None
        self._closed = False
        self._worker = ThreadPoolExecutor(1, "precall-encoder")

    @property
    def model_fingerprint(self) -> str:
        return self._model.model_fingerprint

    async def encode(self, text: str) -> EncodedQuery:
        """Raises whatever the model raises; the next call tries again."""
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        # Shielded: a reader that gives up must not take the result from others who wait for it.
        return await asyncio.shield(self._running.get(text) or self._start(text))

    def warm(self, text: str) -> None:
        if text in self._known or text in self._running or self._closed:
            return
        if self._running:
            self._next_warm = text
        else:
            self._start(text)

    def close(self) -> None:
        """Take no more. What runs or waits is still answered: reads wait for it while the model changes."""
        self._closed = True
        self._next_warm = None
        self._worker.shutdown(wait=False)

    def _start(self, text: str) -> asyncio.Future[EncodedQuery]:
        running = asyncio.get_running_loop().run_in_executor(self._worker, self._model.encode, text)
        self._running[text] = running
        running.add_done_callback(lambda done: self._finished(text, done))
        return running

    def _finished(self, text: str, done: asyncio.Future[EncodedQuery]) -> None:
        del self._running[text]
        if not done.cancelled() and done.exception() is None:
            self._known[text] = done.result()
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
        if self._next_warm is not None and not self._running:
            waiting, self._next_warm = self._next_warm, None
            self.warm(waiting)
