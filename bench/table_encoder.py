"""A model that looks its vectors up: quick enough for tens of thousands of requests."""

import threading
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.errors import TextTooLong

TABLE_CARD = ModelCard("table", "1", "0" * 64, dimension=32, max_tokens=32, pooling=Pooling.MEAN)


class TableEncoder:
    """Knows ``texts``; a word is a token. ``vectors``: the unit vector of each text, float32, ``(32,)``.

    ``pass_seconds`` is what a forward pass takes, without the processor, as that of a device; no pass ends
    while ``open`` is cleared.
    """

    card = TABLE_CARD

    def __init__(self, texts: Sequence[str], *, seed: int = 0, pass_seconds: float = 0.0) -> None:
        self._pass_seconds = pass_seconds
        self.open = threading.Event()
        self.open.set()
        drawn = np.random.default_rng(seed).standard_normal((len(texts), self.card.dimension))
        unit = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
        self.vectors: dict[str, NDArray[np.float32]] = dict(zip(texts, unit, strict=True))
        self._tokenized: dict[str, TokenizedText] = {}
        self._rows: dict[bytes, NDArray[np.float32]] = {}
        for number, text in enumerate(texts):
            token_ids = np.full(len(text.split()), number, np.int64)
            self._tokenized[text] = TokenizedText(token_ids, TokenUsage(len(token_ids), len(token_ids)))
            self._rows[token_ids.tobytes()] = self.vectors[text]

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """A text that is not in the table is a probe's, and gets the first row, or is too long."""
        words = len(text.split())
        if words > self.card.max_tokens and not truncate:
            raise TextTooLong(f"the text has {words} tokens")
        return self._tokenized.get(text) or next(iter(self._tokenized.values()))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        self.open.wait()
        if self._pass_seconds:
            time.sleep(self._pass_seconds)
        return EncodedBatch(np.stack([self._rows[text.token_ids.tobytes()] for text in texts]))

    def close(self) -> None: ...
