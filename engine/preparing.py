"""From what a writer said and what the encoder made of it to what is stored."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.encoding.encoder import TokenUsage
from precall.engine.errors import InvalidVector
from precall.engine.memory.memory import NewMemory
from precall.engine.memory.prepared import PreparedMemory, own_terms
from precall.scoring.vectors import unit


def prepare(
    memories: Sequence[NewMemory],
    vectors: Sequence[NDArray[np.float32] | None],
    embedded: Mapping[int, EmbeddingOutcome],
) -> Sequence[PreparedMemory]:
    """Vectors and keyword terms of a batch; blocks for seconds when its texts are long.

    ``vectors``: what came with a memory, float32 of shape ``(dimension,)``, else None, and then ``embedded``
    holds the outcome at the memory's position. Raises the first item's error, naming its position.
    """
    prepared = []
    for position, (memory, given) in enumerate(zip(memories, vectors, strict=True)):
        if given is not None:
            vector, usage = _normalized(given, position), TokenUsage(0, 0)
        else:
            outcome = embedded[position]
            if outcome.error is not None:
                raise outcome.error.at(position)
            vector, usage = outcome.require_vector(), outcome.usage or TokenUsage(0, 0)
        terms = own_terms(memory.text, memory.questions)
        prepared.append(PreparedMemory(memory, vector.astype(np.float16), terms, usage))
    return prepared


def _normalized(vector: NDArray[np.float32], position: int) -> NDArray[np.float32]:
    try:
        return unit(vector)
    except ValueError as error:
        raise InvalidVector(str(error)).at(position) from error
