"""Vectors of the fake model, as the wire carries them."""

import numpy as np
from fakes.encoder import FAKE_CARD, FakeEncoder

from precall.engine.encoding.encoder import TextRole
from precall.proto import common_pb2


def vector_of(text: str) -> np.ndarray:
    encoder = FakeEncoder()
    return encoder.encode([encoder.tokenize(text, TextRole.QUERY, truncate=False)]).vectors[0]


def vectors(row: np.ndarray, **changes) -> common_pb2.Vectors:
    fields = {
        "data": row.astype("<f4").tobytes(),
        "count": 1,
        "dimension": len(row),
        "format": common_pb2.VECTOR_FORMAT_FLOAT32,
        "model_fingerprint": FAKE_CARD.fingerprint,
    }
    return common_pb2.Vectors(**(fields | changes))
