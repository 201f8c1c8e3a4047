"""Random tables of memories, and unit vectors as they have them."""

import numpy as np

from precall.scoring.keyword import document_impacts
from precall.scoring.memory_columns import Features
from precall.scoring.memory_set import MemorySet

NOW = 1_700_000_000.0
VOCABULARY = ["pune", "trip", "dog", "cat", "tea", "rain", "train", "april", "mother", "piano"]
DIMENSION = 8


def random_unit(generator: np.random.Generator, dimension: int = DIMENSION) -> np.ndarray:
    vector = generator.normal(size=dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


def memory_set(generator: np.random.Generator, count: int, *, oldest_seconds: float = 0.0) -> MemorySet:
    """Of one rung, three words each. Their events lie up to ``oldest_seconds`` before `NOW`."""
    memories = MemorySet(DIMENSION)
    for number in range(count):
        memories.add(
            f"m{number}",
            Features(
                vector=random_unit(generator).astype(np.float16),
                impacts=document_impacts(list(generator.choice(VOCABULARY, 3))),
                importance=float(generator.uniform()),
                event_seconds=NOW - (float(generator.uniform(0, oldest_seconds)) if oldest_seconds else 0.0),
                servable_from=float("-inf"),
                servable_until=float("inf"),
                depth=1,
            ),
        )
    return memories
