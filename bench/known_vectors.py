"""An encoder that knows its texts beforehand: for agents whose own work must not load the machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from precall.client import EncodedQuery


class KnownVectors:
    """A `precall.client.QueryEncoder` over a table; a text that is not in it has no vector: KeyError."""

    def __init__(self, texts: Sequence[str], vectors: np.ndarray, model_fingerprint: str) -> None:
        """``vectors``: float32 unit vectors, a row a text."""
        self.model_fingerprint = model_fingerprint
        self._known = {text: EncodedQuery(row) for text, row in zip(texts, vectors, strict=True)}

    async def encode(self, text: str) -> EncodedQuery:
        return self._known[text]

    def warm(self, text: str) -> None: ...

    @staticmethod
    def save(path: Path, vectors: np.ndarray, model_fingerprint: str) -> None:
        """A row a text, in the order that `load` is given them in."""
        np.savez(path, vectors=vectors, fingerprint=np.array(model_fingerprint))

    @classmethod
    def load(cls, path: Path, texts: Sequence[str]) -> Self:
        with np.load(path) as stored:
            return cls(texts, stored["vectors"].astype(np.float32), str(stored["fingerprint"]))
