"""Memories to fill an index with: vectors in topics and subtopics, importances, ages and words, all from a
seed.

Vectors are not uniform, which no embedding is: 40 topics, 25 subtopics in each, of sizes by Zipf's law; a
vector is topic + 0.7 subtopic + noise, each of unit length on average, scaled to 1. Two memories of a
subtopic have a cosine of about 0.6, of a topic 0.4, others 0. Queries are drawn alike and are no memory's own
vector.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Memory, MemoryKind, MemoryState, Source
from precall.scoring.keyword import document_impacts

NOW: Final = 1_770_000_000.0
RUNG: Final = Rung(("acme", "dana"))
WORDS: Final = tuple(f"word{number}" for number in range(20_000))
WORDS_PER_MEMORY: Final = 12
CHUNK: Final = 10_000
_TOPICS: Final = 40
_SUBTOPICS: Final = 25
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Corpus:
    """A source of memories; the same arguments give the same memories."""

    dimension: int
    seed: int = 1

    def vectors(self, count: int, *, part: int = 0) -> NDArray[np.float32]:
        """Unit vectors, shape ``(count, dimension)``; another ``part``, others of the same kind."""
        shape = np.random.default_rng(self.seed)
        scale = 1 / np.sqrt(self.dimension)
        topics = shape.standard_normal((_TOPICS, self.dimension)) * scale
        subtopics = shape.standard_normal((_TOPICS * _SUBTOPICS, self.dimension)) * scale
        sizes = 1 / np.arange(1, len(subtopics) + 1)
        order = shape.permutation(len(subtopics))
        generator = np.random.default_rng((self.seed, 1, part))
        chosen = order[generator.choice(len(subtopics), count, p=sizes / sizes.sum())]
        noise = generator.standard_normal((count, self.dimension)) * scale
        rows = topics[chosen // _SUBTOPICS] + 0.7 * subtopics[chosen] + noise
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        unit: NDArray[np.float32] = rows.astype(np.float32)
        return unit

    def queries(self, count: int) -> NDArray[np.float32]:
        return self.vectors(count, part=10_000_000)


def _word_shares() -> NDArray[np.float64]:
    """Cumulated shares of the words by the law of Zipf and Mandelbrot: 1 / (rank + 20) ** 1.1.

    The commonest stands in one memory of ten, as do the commonest words of a conversation that are no stop
    words.
    """
    shares = 1 / (np.arange(1, len(WORDS) + 1) + 20) ** 1.1
    return np.cumsum(shares / shares.sum())


_SHARES: Final = _word_shares()


def words(generator: np.random.Generator, count: int) -> list[str]:
    """Words with the skew that words have."""
    return [WORDS[rank] for rank in np.searchsorted(_SHARES[:-1], generator.random(count)).tolist()]


def memories(vectors: NDArray[np.float32], *, first: int = 0) -> list[IndexedMemory]:
    """A memory a vector, with an id, an importance, an age and words of its own: the hardest case for a
    search.
    """
    generator = np.random.default_rng((4, first))
    made = []
    for number, vector in enumerate(vectors, first):
        when = datetime.fromtimestamp(NOW - generator.exponential(60 * _DAY), UTC)
        memory = Memory(
            id=f"m{number}", rung=RUNG, kind=MemoryKind.FACT if number % 10 else MemoryKind.EVENT,
            state=MemoryState.CURRENT, text="", key="", confidence=1.0, importance=float(generator.random()),
            event_time=when, said_time=when, valid_from=None, valid_until=None, expires_at=None,
            source=Source(), questions=(), metadata={}, pinned=False, created_version=1,
            superseded_version=0, created_at=when, tokens_given=0, tokens_used=0,
        )  # fmt: skip
        made.append(
            IndexedMemory(
                memory, vector.astype(np.float16), document_impacts(words(generator, WORDS_PER_MEMORY))
            )
        )
    return made
