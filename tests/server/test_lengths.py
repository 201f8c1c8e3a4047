"""Texts just under, at, just over and far over the limit, through the RPC, alone and in a batch."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import numpy as np
import pytest
from harness import Caller, settings_for

from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_reranker import Qwen3Reranker
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings, Qwen3RerankerSettings
from precall.proto import common_pb2, embedding_pb2
from precall.scoring.vectors import FLOAT32, from_bytes
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server
from precall.server.model import PACKED_ON_PROCESSOR, ServedModel
from tests.fakes.tiny_qwen3 import TinyQwen3

WORDS = ("memory", "house", "river", "train", "green", "seven", "music", "water", "night")
"""A token each in both vocabularies, and nine, so that what is cut away would be seen."""

ROLES = {
    TextRole.QUERY: embedding_pb2.TEXT_ROLE_QUERY,
    TextRole.DOCUMENT: embedding_pb2.TEXT_ROLE_DOCUMENT,
}
QUERY = "What food must Dana avoid?"


def text_of(words: int) -> str:
    return " ".join(WORDS[number % len(WORDS)] for number in range(words))


def lengths_around(limit: int) -> tuple[int, ...]:
    return (limit - 1, limit, limit + 1, 10 * limit)


@asynccontextmanager
async def calling(folder: Path, model: ServedModel) -> AsyncIterator[Caller]:
    settings = settings_for(folder, probe_seconds=60.0)
    async with (
        running_server(settings, lambda _: model) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        yield Caller(channel, (await admin("AdminService/CreateKey", tenant_id="acme")).secret)


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Qwen3Encoder:
    folder = TinyQwen3().save(tmp_path_factory.mktemp("embedding") / "tiny")
    return Qwen3Encoder(Qwen3EncoderSettings(model=folder, device="cpu", max_tokens=160))


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Qwen3Reranker:
    folder = TinyQwen3(seed=1, closing=False, language_model=True).save(
        tmp_path_factory.mktemp("reranker") / "tiny"
    )
    return Qwen3Reranker(Qwen3RerankerSettings(model=folder, device="cpu", max_tokens=240))


async def check_embedding(caller: Caller, encoder: Encoder, role: TextRole) -> None:
    limit = encoder.card.max_tokens
    frame = encoder.tokenize(WORDS[0], role, truncate=False).usage.given - 1
    given = lengths_around(limit)
    texts = [text_of(length - frame) for length in given]
    expected = [encoder.encode([encoder.tokenize(text, role, truncate=True)]).vectors[0] for text in texts]
    requests = [*([number] for number in range(len(texts))), [2, 0, 3, 1]]
    for truncate in (False, True):
        for numbers in requests:
            asked = f"{role.value}, truncate={truncate}, lengths {[given[number] for number in numbers]}"
            reply = await caller(
                "EmbeddingService/Embed",
                texts=[texts[number] for number in numbers],
                role=ROLES[role],
                format=common_pb2.VECTOR_FORMAT_FLOAT32,
                truncate=truncate,
            )
            rows = from_bytes(
                reply.vectors.data, count=len(numbers), dimension=encoder.card.dimension, dtype=FLOAT32
            )
            check_items(reply, [given[number] for number in numbers], limit, truncate, asked)
            for row, number in zip(rows, numbers, strict=True):
                if given[number] <= limit or truncate:
                    assert float(row @ expected[number]) >= 0.9999, asked
                else:
                    assert not row.any(), asked


def check_items(
    reply: embedding_pb2.EmbedResponse | embedding_pb2.RerankResponse,
    given: Sequence[int],
    limit: int,
    truncate: bool,
    asked: str,
) -> None:
    """What was over is refused by its position or, when allowed, cut and said to be, with both counts."""
    over = [] if truncate else [position for position, length in enumerate(given) if length > limit]
    assert [error.position for error in reply.errors] == over, asked
    for error in reply.errors:
        assert error.reason == "TEXT_TOO_LONG"
        assert f"{given[error.position]} tokens" in error.message and str(limit) in error.message, asked
    for position, (length, usage) in enumerate(zip(given, reply.usage, strict=True)):
        if position not in over:
            told = (usage.given, usage.used, usage.truncated)
            assert told == (length, min(length, limit), length > limit), asked


async def test_minilm_embeds_or_refuses_every_length_around_its_limit(tmp_path: Path) -> None:
    encoder = load_default_encoder().encoder
    async with calling(tmp_path / "data", ServedModel(encoder, "onnxruntime")) as caller:
        await check_embedding(caller, encoder, TextRole.DOCUMENT)  # neither role has a prompt


async def test_a_qwen3_embeds_or_refuses_every_length_around_its_limit(
    tmp_path: Path, qwen3: Qwen3Encoder
) -> None:
    model = ServedModel(qwen3, "torch", batching=PACKED_ON_PROCESSOR)
    async with calling(tmp_path / "data", model) as caller:
        for role in TextRole:
            await check_embedding(caller, qwen3, role)


async def test_a_qwen3_reranks_or_refuses_every_length_around_its_limit(
    tmp_path: Path, qwen3: Qwen3Encoder, reranker: Qwen3Reranker
) -> None:
    limit = reranker.card.max_tokens
    frame = reranker.tokenize(QUERY, WORDS[0], truncate=False).usage.given - 1
    given = lengths_around(limit)
    documents = [text_of(length - frame) for length in given]
    expected = [
        float(reranker.score([reranker.tokenize(QUERY, document, truncate=True)]).scores[0])
        for document in documents
    ]
    model = ServedModel(qwen3, "torch", reranker=reranker, batching=PACKED_ON_PROCESSOR)
    async with calling(tmp_path / "data", model) as caller:
        for truncate in (False, True):
            for numbers in [*([number] for number in range(len(documents))), [2, 0, 3, 1]]:
                asked = f"truncate={truncate}, lengths {[given[number] for number in numbers]}"
                reply = await caller(
                    "EmbeddingService/Rerank",
                    query=QUERY,
                    documents=[documents[number] for number in numbers],
                    truncate=truncate,
                )
                check_items(reply, [given[number] for number in numbers], limit, truncate, asked)
                for score, number in zip(np.frombuffer(reply.scores, FLOAT32), numbers, strict=True):
                    served = given[number] <= limit or truncate
                    assert score == pytest.approx(expected[number] if served else 0.0, abs=1e-3), asked
