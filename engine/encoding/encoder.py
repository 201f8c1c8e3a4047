"""What every embedding model looks like to the engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.card import ModelCard
from precall.engine.errors import PrecallError


class TextRole(Enum):
    """A model may prompt questions and documents differently; the role decides, never the caller."""

    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of an input, special tokens included. ``used < given`` only if truncation was allowed."""

    given: int
    used: int

    @property
    def truncated(self) -> bool:
        return self.used < self.given


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """An input ready for the device. ``token_ids`` is int64, shape ``(usage.used,)``."""

    token_ids: NDArray[np.int64]
    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Unit vectors, float32, shape ``(n, dimension)``; a row of a failed input is zero and in ``errors``."""

    vectors: NDArray[np.float32]
    errors: dict[int, PrecallError] = field(default_factory=dict)


class Encoder(Protocol):
    """A model that turns texts into unit vectors. Thread-safe; neither method touches the event loop.

    Invariants (the numerics guard and the contract tests check them on every implementation):
    the vector of a text does not depend on the batch it came in (cosine >= 0.9999) nor on repetition;
    no vector is NaN, infinite or zero without an entry in ``EncodedBatch.errors``.
    """

    @property
    def card(self) -> ModelCard: ...

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """Prompt and tokenise one text. ``instruction`` replaces the task on the card, for this query.

        Raises TextTooLong when it is over ``card.max_tokens``, or the instruction over its own limit;
        NotSupported for an instruction to a model that takes none, InvalidInput for that of a document.
        """
        ...

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        """One forward pass over a non-empty batch; blocks."""
        ...

    def close(self) -> None: ...
