"""The vectors of two fake models, remembered: a life says the same words again and again."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from precall.client.encoder import EncodedQuery
from precall.engine.encoding.card import ModelCard
from tests.engine import two_models
from tests.engine.two_models import HeldEncoder

CARDS: dict[str, ModelCard] = {card.fingerprint: card for card in (two_models.OLD, two_models.NEW)}
"""By fingerprint. Their vectors have different lengths."""

MODELS = OLD, NEW = tuple(CARDS)

_encoders = {fingerprint: HeldEncoder(card) for fingerprint, card in CARDS.items()}


@cache
def embed(fingerprint: str, text: str) -> NDArray[np.float32]:
    """A unit vector of that model, ``(dimension,)``."""
    return _encoders[fingerprint].vector(text)


def other_than(fingerprint: str) -> str:
    """The model that is not this one."""
    return NEW if fingerprint == OLD else OLD


class LocalFakeEncoder:
    """The `QueryEncoder` of an agent's process."""

    def __init__(self, model_fingerprint: str) -> None:
        self.model_fingerprint = model_fingerprint

    async def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery(embed(self.model_fingerprint, text))

    def warm(self, text: str) -> None: ...
