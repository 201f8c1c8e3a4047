"""A clock that is set by hand, an encoder that needs no model, and a wait for what happens by itself."""

import asyncio
import time
import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from precall.client import EncodedQuery
from precall.scoring import terms, vectors

FINGERPRINT = "test-model"
DIMENSION = 32


class SettableClock:
    """Runs like the real one, and can be moved ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def elapsed(self) -> float:
        return time.monotonic() + self.ahead

    def wall(self) -> float:
        return time.time() + self.ahead


def term_vector(text: str) -> NDArray[np.float32]:
    """The sum of a fixed random vector a term, at length 1: texts that share words are near."""
    total = np.zeros(DIMENSION, np.float32)
    for term in terms.analyze(text) or ["?"]:
        total += np.random.default_rng(zlib.crc32(term.encode())).normal(size=DIMENSION).astype(np.float32)
    return vectors.unit(total)


class TermEncoder:
    """A ``QueryEncoder``; counts its work."""

    def __init__(self, fingerprint: str = FINGERPRINT) -> None:
        self.model_fingerprint = fingerprint
        self.encoded: list[str] = []
        self.warmed: list[str] = []

    async def encode(self, text: str) -> EncodedQuery:
        self.encoded.append(text)
        return EncodedQuery(term_vector(text))

    def warm(self, text: str) -> None:
        self.warmed.append(text)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the client does by itself, and that it tells nobody: its state is looked at."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
