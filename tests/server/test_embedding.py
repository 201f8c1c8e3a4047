"""Embedding over real gRPC: rows, item errors, truncation, the card."""

import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD
from harness import Stage
from wire_vectors import vector_of

from precall.proto import common_pb2, embedding_pb2
from precall.scoring.vectors import FLOAT16, FLOAT32, from_bytes

QUERY, DOCUMENT = embedding_pb2.TEXT_ROLE_QUERY, embedding_pb2.TEXT_ROLE_DOCUMENT


async def test_embed_answers_a_row_a_text_and_names_what_failed(stage: Stage):
    caller = await stage.tenant("acme")
    texts = ["a cat", "", "word " * 65, "a cat"]
    reply = await caller("EmbeddingService/Embed", texts=texts, role=QUERY)
    assert (reply.vectors.count, reply.vectors.dimension) == (4, 32)
    assert reply.vectors.format == common_pb2.VECTOR_FORMAT_FLOAT16
    assert reply.vectors.model_fingerprint == FAKE_CARD.fingerprint
    rows = from_bytes(reply.vectors.data, count=4, dimension=32, dtype=FLOAT16)
    assert np.allclose(rows[0].astype(np.float32), vector_of("a cat"), atol=1e-3)
    assert (rows[0] == rows[3]).all()
    assert not rows[1].any()
    assert not rows[2].any()
    assert [(error.position, error.reason) for error in reply.errors] == [
        (1, "INVALID_INPUT"),
        (2, "TEXT_TOO_LONG"),
    ]
    assert (reply.usage[0].given, reply.usage[0].used, reply.usage[0].truncated) == (2, 2, False)
    assert {"tokenize", "queue", "device", "total"} == {timing.stage for timing in reply.timings}


async def test_embed_truncates_only_when_asked_and_says_so(stage: Stage):
    caller = await stage.tenant("acme")
    reply = await caller(
        "EmbeddingService/Embed",
        texts=["word " * 65],
        role=DOCUMENT,
        truncate=True,
        format=common_pb2.VECTOR_FORMAT_FLOAT32,
    )
    assert (reply.usage[0].given, reply.usage[0].used, reply.usage[0].truncated) == (65, 64, True)
    (row,) = from_bytes(reply.vectors.data, count=1, dimension=32, dtype=FLOAT32)
    assert abs(np.linalg.norm(row) - 1) < 1e-3


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"texts": []}, "INVALID_INPUT"),
        ({"texts": ["a"], "role": embedding_pb2.TEXT_ROLE_UNSPECIFIED}, "INVALID_INPUT"),
        ({"texts": ["a"], "role": 77}, "INVALID_INPUT"),
        ({"texts": ["a"], "format": 77}, "INVALID_INPUT"),
        ({"texts": ["a"], "work_class": 77}, "INVALID_INPUT"),
        ({"texts": ["a"] * 1001}, "INVALID_INPUT"),
        ({"texts": ["a"], "model_fingerprint": "other"}, "MODEL_FINGERPRINT_MISMATCH"),
    ],
)
async def test_embed_refuses(stage: Stage, fields, code):
    caller = await stage.tenant("acme")
    assert (await failure_of(caller("EmbeddingService/Embed", **({"role": QUERY} | fields)))).reason == code


async def test_the_card_is_the_encoders(stage: Stage):
    card = await stage.admin("EmbeddingService/GetModel")
    assert card.fingerprint == FAKE_CARD.fingerprint
    assert (card.name, card.dimension, card.max_tokens) == ("fake-hash", 32, 64)
    assert (card.pooling, card.runtime) == (embedding_pb2.POOLING_MEAN, "fake")
