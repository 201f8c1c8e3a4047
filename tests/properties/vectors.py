"""The fake model's vectors, remembered: a life says the same words again and again."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from precall.client.encoder import EncodedQuery
from precall.engine.encoding.encoder import TextRole
from tests.fakes.encoder import FAKE_CARD, FakeEncoder

_encoder = FakeEncoder()


@cache
def embed(text: str) -> NDArray[np.float32]:
    """A unit vector, ``(32,)``."""
    tokenized = _encoder.tokenize(text, TextRole.QUERY, truncate=False)
    return _encoder.encode([tokenized]).vectors[0]


class LocalFakeEncoder:
    """The `QueryEncoder` of an agent's process."""

    model_fingerprint = FAKE_CARD.fingerprint

    async def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery(embed(text))

    def warm(self, text: str) -> None: ...
