"""Memories and vectors for tests, short to say."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory, Memory, MemoryKind, MemoryState, Source
from precall.scoring.keyword import document_impacts
from precall.scoring.terms import analyze
from precall.scoring.vectors import unit

ACME = Rung(("acme",))
DANA = Rung(("acme", "dana"))
EVE = Rung(("acme", "eve"))
NOW = 1_770_000_000.0


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def indexed(
    memory_id: str,
    rung: Rung = DANA,
    *,
    vector: NDArray[np.floating],
    text: str = "a memory",
    event: float = NOW,
    **fields: Any,
) -> IndexedMemory:
    """A current memory; its keyword impacts follow from its text, ``event`` is in Unix seconds."""
    defaults: dict[str, Any] = {
        "kind": MemoryKind.FACT,
        "state": MemoryState.CURRENT,
        "key": "",
        "confidence": 1.0,
        "importance": 0.5,
        "said_time": moment(event),
        "valid_from": None,
        "valid_until": None,
        "expires_at": None,
        "source": Source(),
        "questions": (),
        "metadata": {},
        "pinned": False,
        "created_version": 1,
        "superseded_version": 0,
        "created_at": moment(event),
        "tokens_given": 1,
        "tokens_used": 1,
    }
    memory = Memory(id=memory_id, rung=rung, text=text, event_time=moment(event), **(defaults | fields))
    return IndexedMemory(memory, unit(vector).astype(np.float16), document_impacts(analyze(text)))


def clustered(count: int, dimension: int, *, seed: int, clusters: int = 24) -> NDArray[np.float32]:
    """Unit vectors in overlapping groups, as sentence embeddings lie; shape ``(count, dimension)``."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((clusters, dimension)) / np.sqrt(dimension)
    spread = generator.standard_normal((count, dimension)) / np.sqrt(dimension)
    rows = centres[generator.integers(0, clusters, count)] + spread
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def near(vector: NDArray[np.float32], *, seed: int, distance: float = 0.6) -> NDArray[np.float32]:
    """A unit vector not far from another one: a question about it."""
    noise = np.random.default_rng(seed).standard_normal(len(vector)) / np.sqrt(len(vector))
    return unit(vector + distance * noise)


WORDS: Sequence[str] = (
    "pune", "train", "tea", "doctor", "garden", "piano", "rent", "visa", "dog", "river", "lamp", "exam",
    "cousin", "market", "flight", "budget", "winter", "salad", "guitar", "bridge",
)  # fmt: skip


def sentence(generator: np.random.Generator, words: int = 6) -> str:
    """Words with the skew that words have: the first ones of `WORDS` are common."""
    ranks = np.minimum(generator.zipf(1.5, words) - 1, len(WORDS) - 1)
    return " ".join(WORDS[rank] for rank in ranks)
