"""The card that says what a model is; its fingerprint names the space that vectors live in."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Self

from precall.engine.errors import InvalidInput, NotSupported


class Pooling(Enum):
    MEAN = "mean"
    LAST_TOKEN = "last_token"
    CLS = "cls"


@dataclass(frozen=True)
class ModelCard:
    """Everything that changes a vector, and ``scripts``. Two models of one fingerprint are interchangeable.

    ``query_prompt`` and ``document_prompt`` are templates in which ``{text}`` stands for the input.
    ``matryoshka_dimensions``, ascending, are the lengths that a vector may be cut to; empty: none.
    ``scripts``: those whose languages it was trained for, as `scoring.scripts` names them; empty: all. They
    say how far cosines are to be trusted and change no vector: the fingerprint leaves them out.
    """

    name: str
    revision: str
    weights_sha256: str
    dimension: int
    max_tokens: int
    pooling: Pooling
    normalized: bool = True
    query_prompt: str = "{text}"
    document_prompt: str = "{text}"
    matryoshka_dimensions: tuple[int, ...] = ()
    scripts: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the card without its scripts as canonical JSON, its first 16 bytes in hex."""
        fields = asdict(self) | {"pooling": self.pooling.value}
        del fields["scripts"]
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]

    def cut_to(self, dimension: int) -> Self:
        """The card of the same model with shorter vectors: each cut to ``dimension``, then normalised.

        It equals that of an encoder loaded at ``dimension``, so its fingerprint names their common space, and
        an index of the longer vectors takes none of the shorter. Raises ``NotSupported`` for a model that was
        not trained to be cut, ``InvalidInput`` for a length that it was not trained for.
        """
        if dimension == self.dimension:
            return self
        if not self.matryoshka_dimensions:
            raise NotSupported(
                f"the vectors of {self.name} cannot be cut: leave the dimension unset, they have "
                f"{self.dimension}"
            )
        if dimension not in self.matryoshka_dimensions:
            raise InvalidInput(
                f"dimension is {dimension}, and {self.name} takes {_in_words(self.matryoshka_dimensions)}",
                metadata={"dimension": str(dimension), "limit": str(self.dimension)},
            )
        shorter = tuple(length for length in self.matryoshka_dimensions if length <= dimension)
        return replace(self, dimension=dimension, matryoshka_dimensions=shorter)


def _in_words(lengths: Sequence[int]) -> str:
    """``lengths`` is not empty and ascending."""
    first, last = lengths[0], lengths[-1]
    if len(lengths) == last - first + 1 > 2:
        return f"any from {first} to {last}"
    return " or ".join(", ".join(map(str, lengths)).rsplit(", ", 1))
