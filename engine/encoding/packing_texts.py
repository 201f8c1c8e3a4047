"""Texts of any lengths laid end to end, so that a model computes no padding. Plain numpy, no device."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PackedTexts:
    """One forward pass. ``buffer``, int32, holds four parts one after the other, so that one copy carries
    them to a device: token ids ``(tokens,)``, positions within their text ``(tokens,)``, offsets of the texts
    ``(texts + 1,)``, and the index of each text's last token ``(texts,)``.

    ``lengths`` are the tokens of each text; only padding of ``padded_to`` may have texts of length 0.
    """

    buffer: NDArray[np.int32]
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def longest(self) -> int:
        return max(self.lengths)

    @classmethod
    def of(cls, texts: Sequence[NDArray[np.int64]]) -> "PackedTexts":
        """Pack a non-empty list of non-empty token id arrays, each of shape ``(n,)``."""
        lengths = np.array([len(text) for text in texts], dtype=np.int32)
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        positions = np.arange(offsets[-1], dtype=np.int32) - np.repeat(offsets[:-1], lengths)
        token_ids = np.concatenate(texts).astype(np.int32)
        buffer = np.concatenate([token_ids, positions, offsets, offsets[1:] - 1])
        return cls(buffer, tuple(lengths.tolist()))

    def padded_to(self, tokens: int, texts: int) -> "PackedTexts":
        """Exactly ``tokens`` tokens in exactly ``texts`` texts: one more text takes the tokens that are left,
        and empty ones make up the number. The first rows stay what they were.

        Needs ``tokens >= self.tokens`` and ``texts > len(self.lengths)``.
        """
        spare, count = tokens - self.tokens, len(self.lengths)
        assert spare >= 0 and texts > count, "the padding must have room"
        zeros = np.zeros(spare, dtype=np.int32)
        ids, positions, offsets, ends = np.split(
            self.buffer, np.cumsum([self.tokens, self.tokens, count + 1]).tolist()
        )
        buffer = np.concatenate(
            [
                *(ids, zeros),
                *(positions, np.arange(spare, dtype=np.int32)),
                *(offsets, np.full(texts - count, tokens, dtype=np.int32)),
                *(ends, np.full(texts - count, tokens - 1, dtype=np.int32)),
            ]
        )
        return PackedTexts(buffer, (*self.lengths, spare, *(0 for _ in range(texts - count - 1))))


def cut_passes(lengths: Sequence[int], pass_tokens: int) -> list[range]:
    """Consecutive rows, cut where the next one would take a pass over ``pass_tokens``; one over it alone goes
    alone. Nothing is sorted: without padding, the order of lengths does not matter.
    """
    passes: list[range] = []
    begin = tokens = 0
    for row, length in enumerate(lengths):
        if row > begin and tokens + length > pass_tokens:
            passes.append(range(begin, row))
            begin, tokens = row, 0
        tokens += length
    passes.append(range(begin, len(lengths)))
    return passes
