"""What became of one text that was to be embedded."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TokenUsage
from precall.engine.errors import PrecallError


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
