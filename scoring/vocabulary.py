"""Which terms a set of memories has at all, in a few bits a term: a Bloom filter.

It may name a term that is not there (one in fifty), never leave out one that is. So what it does not name
adds nothing to the score of any memory.
"""

import zlib
from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

BITS_PER_TERM: Final = 8
HASHES: Final = 5
"""The best number for so many bits: (1 - exp(-5 / 8)) ** 5 = 2.2 % of absent terms are named."""

LEAST_BYTES: Final = 256
MOST_BYTES: Final = 64 * 1024
"""Room for 65,000 terms at full sharpness; with more the filter names more that is not there."""

# Odd numbers without a pattern, that spread a 32-bit checksum over 64 bits: the fractions of the golden ratio
# and of the square root of 3.
_FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND: Final = np.uint64(0xBB67AE8584CAA73B)


class Vocabulary:
    """Terms can be added; none can be taken back."""

    def __init__(self, data: bytes) -> None:
        """``data``: as `data` gives it. Raises ValueError unless its length is a power of two, in bounds."""
        size = len(data)
        if not LEAST_BYTES <= size <= MOST_BYTES or size & (size - 1):
            raise ValueError(f"a vocabulary of {size} bytes")
        self._bits = bytearray(data)

    @classmethod
    def of(cls, terms: Collection[str]) -> "Vocabulary":
        """That of these terms, with room for a few more."""
        wanted = max(len(terms) * BITS_PER_TERM // 8, 1)
        size = min(max(1 << (wanted - 1).bit_length(), LEAST_BYTES), MOST_BYTES)
        vocabulary = cls(bytes(size))
        vocabulary.update(terms)
        return vocabulary

    @property
    def data(self) -> bytes:
        return bytes(self._bits)

    def has_room(self, terms: int) -> bool:
        """Whether so many terms stand in it as sharply as in one that was made for them."""
        size = len(self._bits)
        return terms * BITS_PER_TERM <= 8 * size or size == MOST_BYTES

    def update(self, terms: Iterable[str]) -> None:
        places = self._places(terms)
        bits = np.frombuffer(self._bits, np.uint8)
        np.bitwise_or.at(bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))

    def __contains__(self, term: str) -> bool:
        """Whether the term may be there; False: it is not."""
        places = self._places((term,)).tolist()
        return all(self._bits[place >> 3] >> (place & 7) & 1 for place in places)

    def _places(self, terms: Iterable[str]) -> NDArray[np.int64]:
        """The bits of the terms, `HASHES` each."""
        checksums = np.array([zlib.crc32(term.encode()) for term in terms], np.uint64)
        first, second = (
            checksums * _FIRST >> np.uint64(32),
            checksums * _SECOND >> np.uint64(32) | np.uint64(1),
        )
        steps = np.arange(HASHES, dtype=np.uint64)[:, None]
        places = (first + steps * second) & np.uint64(len(self._bits) * 8 - 1)
        return places.astype(np.int64).ravel()
