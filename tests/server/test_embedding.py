"""Embedding over real gRPC: rows, item errors, truncation, the card."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD
from fakes.reranker import WORD_CARD, WordReranker
from harness import Caller, Stage, running_stage
from wire_vectors import vector_of

from precall.engine.batching.settings import BatchingSettings
from precall.engine.memory.memory import MAX_TEXT_CHARACTERS
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
    assert tuple(card.scripts) == FAKE_CARD.scripts == ("latin",)


@pytest.fixture
async def reranking(tmp_path: Path) -> AsyncIterator[Caller]:
    async with running_stage(tmp_path / "data", reranker=WordReranker()) as stage:
        yield await stage.tenant("acme")


async def test_rerank_answers_a_score_a_document_and_names_what_failed(reranking: Caller):
    documents = ["tea tea", "", "tea and " * 8, "coffee"]
    reply = await reranking("EmbeddingService/Rerank", query="tea", documents=documents)
    assert np.frombuffer(reply.scores, FLOAT32).tolist() == [1, 0, 0, 0]
    assert [(error.position, error.reason) for error in reply.errors] == [
        (1, "INVALID_INPUT"),
        (2, "TEXT_TOO_LONG"),
    ]
    assert reply.model_fingerprint == WORD_CARD.fingerprint
    assert [timing.stage for timing in reply.timings] == ["tokenize", "queue", "device", "total"]
    assert (reply.usage[0].given, reply.usage[0].truncated) == (2, False)

    cut = await reranking("EmbeddingService/Rerank", query="tea", documents=documents, truncate=True)
    assert np.frombuffer(cut.scores, FLOAT32).tolist() == [1, 0, 0.5, 0]
    assert (cut.usage[2].given, cut.usage[2].used, cut.usage[2].truncated) == (16, 8, True)

    told = await reranking("EmbeddingService/Rerank", query="x", documents=["tea"], instruction="tea")
    assert np.frombuffer(told.scores, FLOAT32).tolist() == [1]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"documents": []}, "INVALID_INPUT"),
        ({"query": " "}, "INVALID_INPUT"),
        ({"query": "q" * 100_001}, "TEXT_TOO_LONG"),
        ({"instruction": " \t"}, "INVALID_INPUT"),
        ({"instruction": "q" * 2_001}, "TEXT_TOO_LONG"),
        ({"documents": ["a"] * 1001}, "INVALID_INPUT"),
        ({"model_fingerprint": FAKE_CARD.fingerprint}, "MODEL_FINGERPRINT_MISMATCH"),
    ],
)
async def test_rerank_refuses(reranking: Caller, fields, reason):
    request = {"query": "q", "documents": ["a"]} | fields
    assert (await failure_of(reranking("EmbeddingService/Rerank", **request))).reason == reason


async def test_without_a_reranker_rerank_says_so(stage: Stage):
    caller = await stage.tenant("acme")
    failure = await failure_of(caller("EmbeddingService/Rerank", query="q", documents=["d"]))
    assert failure.reason == "NOT_SUPPORTED"


async def test_a_text_longer_than_any_memory_is_refused_like_any_that_is_too_long(stage: Stage):
    caller = await stage.tenant("acme")
    assert BatchingSettings().max_text_characters == MAX_TEXT_CHARACTERS
    texts = ["fine", "x " * (MAX_TEXT_CHARACTERS // 2 + 1)]
    reply = await caller("EmbeddingService/Embed", texts=texts, role=DOCUMENT, truncate=True)
    assert [(error.position, error.reason) for error in reply.errors] == [(1, "TEXT_TOO_LONG")]
    assert "100002 characters, at most 100000" in reply.errors[0].message
