"""What became of one text that was to be embedded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TokenUsage
from precall.engine.errors import NumericsError, PrecallError

SHORTEST_PREFIX = 1e-4
"""Least length of a unit vector's prefix: a shorter one is made of the model's rounding errors."""


@dataclass(frozen=True, slots=True)
class EmbeddingOutcome:
    """Either ``vector`` (a unit vector, float32, shape ``(dimension,)``, read-only) or ``error``; never both.

    ``usage`` is None if the text could not be tokenised or was too long. Times are in seconds and 0 for
    stages that were not reached: in the tokenizer, in the queue, and of the forward pass, which the batch's
    texts share.
    """

    vector: NDArray[np.float32] | None
    error: PrecallError | None
    usage: TokenUsage | None
    tokenize_seconds: float = 0.0
    queue_seconds: float = 0.0
    device_seconds: float = 0.0

    @property
    def truncated(self) -> bool:
        return self.usage is not None and self.usage.truncated

    def require_vector(self) -> NDArray[np.float32]:
        """The vector; raises the text's own error if there is none."""
        if self.vector is None:
            assert self.error is not None
            raise self.error
        return self.vector

    def cut_to(self, dimension: int) -> Self:
        """The same with a shorter vector: the first ``dimension`` numbers, normalised again.

        For a length that the model's card allows. A prefix of zeros becomes a ``NumericsError``.
        """
        if self.vector is None or dimension == len(self.vector):
            return self
        prefix = self.vector[:dimension]
        length = float(np.linalg.norm(prefix))
        if not length >= SHORTEST_PREFIX:
            error = NumericsError(
                f"the first {dimension} numbers of the text's vector are all but zero: ask for a larger "
                "dimension; the other texts are not touched",
                metadata={"length": f"{length:.6g}"},
            )
            return replace(self, vector=None, error=error)
        shorter = prefix / np.float32(length)
        shorter.flags.writeable = False
        return replace(self, vector=shorter)


@dataclass(frozen=True, slots=True)
class EmbeddingTimes:
    """Where a request's time went, in seconds: its texts are read one after the other, and wait and run
    beside each other. 0 where it had no texts.
    """

    tokenize_seconds: float
    queue_seconds: float
    device_seconds: float

    @classmethod
    def of(cls, outcomes: Sequence[EmbeddingOutcome]) -> Self:
        return cls(
            sum(outcome.tokenize_seconds for outcome in outcomes),
            max((outcome.queue_seconds for outcome in outcomes), default=0.0),
            max((outcome.device_seconds for outcome in outcomes), default=0.0),
        )
