"""What a partition makes of a memory for the ranking, and of a table for whoever ranks it later."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from precall.engine.errors import InvalidVector
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.memory_columns import Features
from precall.scoring.ranking import Candidates
from precall.scoring.vectors import widened


def features_of(indexed: IndexedMemory) -> Features:
    """The ranking features of a stored memory."""
    memory = indexed.memory
    return Features(
        vector=indexed.vector,
        impacts=indexed.impacts,
        importance=memory.importance,
        event_seconds=memory.event_time.timestamp(),
        servable_from=memory.servable_from,
        servable_until=memory.servable_until,
        depth=memory.rung.depth,
    )


def check_lengths(vectors: NDArray[np.float16]) -> None:
    """Raises InvalidVector unless all of them, shape ``(n, dimension)``, are of length 1."""
    wide = widened(vectors)
    lengths = np.sqrt(np.vecdot(wide, wide))
    fitting = np.abs(lengths - 1.0) < 0.01  # NaN and infinity fail this too
    if not fitting.all():
        raise InvalidVector(
            f"vector of length {lengths[fitting.argmin()]:.4f}: only unit vectors are indexed"
        )


def copied(candidates: Candidates) -> Candidates:
    """The same table, independent of later changes to the set that its views are of."""
    return replace(
        candidates,
        ids=list(candidates.ids),
        importance=candidates.importance.copy(),
        event_seconds=candidates.event_seconds.copy(),
        servable_from=candidates.servable_from.copy(),
        servable_until=candidates.servable_until.copy(),
        depth=candidates.depth.copy(),
    )
