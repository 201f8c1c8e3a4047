"""A seeded stream of requests with every fate that a request can have, for showing that none is lost."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from precall.engine.batching.work import WorkClass

LONG_TEXT: Final = "memory " * 600
"""More tokens than any model under this load takes."""

_WORDS: Final = (
    *("allergy", "balcony", "bicycle", "brother", "cancer", "cheese", "church", "cousin", "crocodile"),
    *("dentist", "divorce", "drum", "earthquake", "elephant", "engine", "exam", "factory", "fever"),
    *("funeral", "garden", "guitar", "harbour", "honey", "hospital", "invoice", "judge", "kettle"),
    *("lawyer", "lottery", "mango", "mathematics", "midnight", "monsoon", "museum", "novel", "ocean"),
    *("passport", "peanut", "physics", "pilot", "poem", "police", "pregnant", "Pune", "quarrel", "railway"),
    *("refund", "sailing", "salary", "snow", "spider", "strike", "surgery", "tailor", "telescope", "temple"),
    *("theft", "tiger", "vaccine", "violin", "volcano", "wedding", "whisky", "winter", "yoga", "zebra"),
)


class Fate(Enum):
    """What is done to a request."""

    SERVED = "served"
    CANCELLED = "cancelled"
    """Its caller gives it up soon after asking."""
    TOO_LONG = "too long"
    """One of its texts is ``LONG_TEXT``."""
    EXPIRED = "expired"
    """Its deadline has passed, or does in a moment."""


@dataclass(frozen=True, slots=True)
class MixedRequest:
    """``chance``, in [0, 1), is for whoever sends it: when to cancel, how late to be."""

    number: int
    texts: tuple[str, ...]
    fate: Fate
    work_class: WorkClass
    chance: float


@dataclass(frozen=True)
class Mixture:
    """Shares of the requests; the rest is served. ``batches`` of them have 2 to ``largest_batch`` texts."""

    cancelled: float = 0.01
    too_long: float = 0.01
    expired: float = 0.01
    batches: float = 0.05
    largest_batch: int = 8

    def requests(self, count: int, texts: Sequence[str], seed: int) -> Iterator[MixedRequest]:
        """``count`` requests over ``texts``, the same for the same arguments."""
        chance = random.Random(seed)
        classes = tuple(WorkClass)
        for number in range(count):
            size = chance.randint(2, self.largest_batch) if chance.random() < self.batches else 1
            chosen = chance.choices(texts, k=size)
            fate = self._fate(chance.random())
            if fate is Fate.TOO_LONG:
                chosen[chance.randrange(size)] = LONG_TEXT
            yield MixedRequest(number, tuple(chosen), fate, chance.choice(classes), chance.random())

    def _fate(self, drawn: float) -> Fate:
        for fate, share in (
            (Fate.CANCELLED, self.cancelled),
            (Fate.TOO_LONG, self.too_long),
            (Fate.EXPIRED, self.expired),
        ):
            if drawn < share:
                return fate
            drawn -= share
        return Fate.SERVED


def distinct_texts(count: int, seed: int) -> list[str]:
    """Texts of two to six words, none a permutation of another: their vectors tell them apart."""
    chance = random.Random(seed)
    texts: dict[frozenset[str], str] = {}
    while len(texts) < count:
        words = chance.sample(_WORDS, k=chance.randint(2, 6))
        texts.setdefault(frozenset(words), " ".join(words))
    return list(texts.values())
