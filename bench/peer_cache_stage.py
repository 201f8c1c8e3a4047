"""The rung that two caches hold parts of, what is asked about it, and the vectors of all of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from precall.bench.coverage_corpus import Exchange, SharedCorpus, indexed_memories
from precall.bench.peer_cache_cases import case_texts
from precall.bench.pushed_cache import AskedRung
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import IndexedMemory

_KINDS: Final = ("locomo", "scifact", "xquad")
_TIMED_QUESTIONS: Final = 20


@dataclass(frozen=True, slots=True)
class PeerCacheRun:
    """``conversations``: of each kind of question (`_KINDS`), of ``questions`` each.

    ``held``: items held when it is asked what is right. ``timed``: items held when look-ups are timed.
    """

    data: Path
    vectors: Path
    peer_python: Path
    held: tuple[int, ...] = (100, 500, 2_000)
    timed: tuple[int, ...] = (100, 500, 2_000, 10_000)
    conversations: int = 2
    questions: int = 10

    @classmethod
    def quick(cls, data: Path, vectors: Path, peer_python: Path) -> Self:
        return cls(data, vectors, peer_python, held=(100,), timed=(100, 500), conversations=1, questions=4)


@dataclass(frozen=True, slots=True)
class PaddedItems:
    """So many items as are asked for, no two of the same text. ``vectors``: float32, a row each.

    ``memories``: what each is a copy of.
    """

    texts: Sequence[str]
    vectors: NDArray[np.float32]
    memories: Sequence[IndexedMemory]

    def indexed(self) -> list[IndexedMemory]:
        """As an engine has them; a memory's id is its place."""
        return [
            IndexedMemory(replace(indexed.memory, id=str(place), text=text), indexed.vector, indexed.impacts)
            for place, (text, indexed) in enumerate(zip(self.texts, self.memories, strict=True))
        ]


class PeerCacheStage:
    """The rung, what is asked about it, and the vectors of all of it."""

    def __init__(self, run: PeerCacheRun) -> None:
        encoder = load_default_encoder().encoder
        self._cache = VectorCache(encoder, run.vectors)
        corpus = SharedCorpus(run.data)
        self.exchanges = _chosen([each for each in corpus.exchanges if not each.fitted], run)
        self.fitted = _chosen([each for each in corpus.exchanges if each.fitted], run)
        self.item_texts = list(corpus.texts)
        self.item_vectors = self._cache.vectors(corpus.texts, TextRole.DOCUMENT)
        self.asked_texts = case_texts([*self.exchanges, *self.fitted])
        asked = dict(zip(self.asked_texts, self.embed(self.asked_texts), strict=True))
        memories = list(indexed_memories(corpus, self.item_vectors.astype(np.float16)))
        partition = Partition(memories[0].memory.rung, encoder.card.dimension, PartitionSettings())
        partition.apply(added=memories)
        now = max(each.memory.event_time.timestamp() for each in memories)
        self.rung = AskedRung(partition, encoder.card, asked, now, self.item_vectors)
        self.memories = memories

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Of questions, float32, ``(texts, dimension)``."""
        return self._cache.vectors(texts, TextRole.QUERY)

    def padded(self, count: int) -> "PaddedItems":
        """The corpus, and again from its beginning."""
        rows = [place % len(self.item_texts) for place in range(count)]
        texts = [f"{place}. {self.item_texts[row]}" for place, row in enumerate(rows)]
        return PaddedItems(texts, self.item_vectors[rows], [self.memories[row] for row in rows])

    @property
    def timed_questions(self) -> list[str]:
        """About the dialogue that the items begin with, so that no look-up ends at its first test."""
        said = [each.text for exchange in self.fitted for each in exchange.utterances]
        return said[:_TIMED_QUESTIONS]


def _chosen(exchanges: Sequence[Exchange], run: PeerCacheRun) -> list[Exchange]:
    """Conversations of each kind of question, evenly spaced and cut; kinds in turns."""
    by_kind = []
    for kind in _KINDS:
        of_kind = [
            each for each in exchanges if each.utterances[0].group == kind and each.reads >= run.questions
        ]
        count = min(run.conversations, len(of_kind))
        by_kind.append([of_kind[place * len(of_kind) // count] for place in range(count)])
    return [
        replace(exchange, utterances=exchange.utterances[: run.questions])
        for turn in zip(*by_kind, strict=True)
        for exchange in turn
    ]
