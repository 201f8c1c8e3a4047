"""Vectors of many texts, kept in a folder so that a second run does not make them again."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import Encoder, TextRole

_BATCH: Final = 32


class VectorCache:
    """Encodes texts once. A file is named for the model's fingerprint, the role and every text in it."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self.encoder = encoder
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def vectors(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        """Unit vectors, shape (texts, dimension), at the fp16 precision that memories are stored with.

        Texts that are too long are cut at the model's limit. Raises the encoder's error for a text that has
        no vector.
        """
        if not texts:
            return np.empty((0, self.encoder.card.dimension), np.float32)
        path = self._folder / f"{self._key(texts, role)}.npy"
        if not path.exists():
            vectors = self._encode(texts, role).astype(np.float16)
            aside = path.with_suffix(".partial")
            with aside.open("wb") as file:
                np.save(file, vectors)
            aside.replace(path)
        stored: NDArray[np.float16] = np.load(path)
        return stored.astype(np.float32)

    def _key(self, texts: Sequence[str], role: TextRole) -> str:
        digest = hashlib.sha256(f"{self.encoder.card.fingerprint} {role.value}".encode())
        for text in texts:
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        return digest.hexdigest()[:32]

    def _encode(self, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
        tokenized = [self.encoder.tokenize(text, role, truncate=True) for text in texts]
        # Longest first: a batch is padded to its longest text.
        order = sorted(range(len(texts)), key=lambda row: -tokenized[row].usage.used)
        vectors = np.empty((len(texts), self.encoder.card.dimension), np.float32)
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            batch = self.encoder.encode([tokenized[row] for row in rows])
            for error in batch.errors.values():
                raise error
            vectors[rows] = batch.vectors
            if len(order) > 10 * _BATCH:
                print(f"\rembedded {start + len(rows)} of {len(order)} texts", end="", file=sys.stderr)
        if len(order) > 10 * _BATCH:
            print(file=sys.stderr)
        return vectors
