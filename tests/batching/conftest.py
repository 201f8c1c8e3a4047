"""A fake encoder whose device is opened and closed by the test, and that can be made to fail."""

import hashlib
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.errors import InvalidInput, TextTooLong

CARD = ModelCard("fake", "1", "0" * 64, dimension=8, max_tokens=32, pooling=Pooling.MEAN)


def vector_of(text: TokenizedText) -> np.ndarray:
    """What the fake computes: a unit vector that depends on the tokens alone."""
    seed = int.from_bytes(hashlib.sha256(text.token_ids.tobytes()).digest()[:8])
    vector = np.random.default_rng(seed).normal(size=CARD.dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


class FakeEncoder:
    """One token a word. ``open_device`` lets passes through; ``fail_next`` raises in the next one."""

    card = CARD

    def __init__(self) -> None:
        self.batches: list[list[TokenizedText]] = []
        self.began = threading.Semaphore(0)
        self.threads_of_tokenizer: set[str] = set()
        self.fail_next: BaseException | None = None
        self.spoil: Callable[[np.ndarray, Sequence[TokenizedText]], np.ndarray] = lambda vectors, _: vectors
        self._opened = threading.Event()
        self._opened.set()

    def close_device(self) -> None:
        self._opened.clear()

    def open_device(self) -> None:
        self._opened.set()

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        self.threads_of_tokenizer.add(threading.current_thread().name)
        words = text.split()
        if not words:
            raise InvalidInput("empty")
        ids = np.array(
            [int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) for word in words], np.int64
        )
        if len(ids) > CARD.max_tokens and not truncate:
            raise TextTooLong("too long")
        kept = ids[: CARD.max_tokens]
        return TokenizedText(kept, TokenUsage(len(ids), len(kept)))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        self.batches.append(list(texts))
        self.began.release()
        self._opened.wait()
        failure, self.fail_next = self.fail_next, None
        if failure is not None:
            raise failure
        return EncodedBatch(self.spoil(np.stack([vector_of(text) for text in texts]), texts))

    def close(self) -> None: ...


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder()
