"""The card that says what a model is; its fingerprint names the space that vectors live in."""

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property


class Pooling(Enum):
    MEAN = "mean"
    LAST_TOKEN = "last_token"
    CLS = "cls"


@dataclass(frozen=True)
class ModelCard:
    """Everything that changes a vector. Two models with equal cards are interchangeable.

    ``query_prompt`` and ``document_prompt`` are templates in which ``{text}`` stands for the input.
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

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the card as canonical JSON, its first 16 bytes in hex."""
        fields = asdict(self) | {"pooling": self.pooling.value}
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]
