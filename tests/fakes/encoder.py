"""A model without weights: equal texts get equal unit vectors, texts that share words get near ones."""

import hashlib
import re
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText, TokenUsage
from precall.engine.encoding.instruction import require_instructable, require_no_instruction
from precall.engine.errors import InvalidInput, ModelUnavailable, TextTooLong

FAKE_CARD = ModelCard(
    name="fake-hash",
    revision="1",
    weights_sha256="0" * 64,
    dimension=32,
    max_tokens=64,
    pooling=Pooling.MEAN,
    scripts=("latin",),
)

_VOCABULARY = 2**31


class FakeEncoder:
    """Deterministic and quick. ``broken`` makes every forward pass fail until it is set back, with ``fault``
    if there is one. ``instructable``: whether it takes instructions, whose words then count as the query's.
    """

    def __init__(self, card: ModelCard = FAKE_CARD, *, instructable: bool = False) -> None:
        self._card = card
        self._instructable = instructable
        self.broken = False
        self.fault: Exception | None = None
        self.closed = False
        self.forward_passes = 0
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        return self._card

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        if not self._instructable:
            require_no_instruction(instruction, self._card.name)
        elif instruction is not None:
            require_instructable(instruction, role)
            text = f"{instruction} {text}"
        words = re.findall(r"\w+", text.casefold())
        if not words:
            raise InvalidInput("the text has no words")
        ids = [
            int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % _VOCABULARY for word in words
        ]
        limit = self._card.max_tokens
        if len(ids) > limit and not truncate:
            raise TextTooLong(
                f"the text has {len(ids)} tokens, the model takes {limit}",
                metadata={"tokens": str(len(ids)), "limit": str(limit)},
            )
        used = ids[:limit]
        return TokenizedText(np.array(used, np.int64), TokenUsage(len(ids), len(used)))

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        if self.broken:
            raise self.fault or ModelUnavailable("the fake device is broken")
        with self._lock:
            self.forward_passes += 1
        return EncodedBatch(np.stack([self._vector(text.token_ids) for text in texts]))

    def close(self) -> None:
        self.closed = True

    def _vector(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        words = [
            np.random.default_rng(int(token)).standard_normal(self._card.dimension) for token in token_ids
        ]
        total = np.sum(words, axis=0)
        return (total / np.linalg.norm(total)).astype(np.float32)
