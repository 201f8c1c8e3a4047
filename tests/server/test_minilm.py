"""The default model behind the real services: meaning is found, and clients get the encoder that found it."""

import hashlib

import grpc.aio
import numpy as np
import onnxruntime
import pytest
from harness import DANA, Caller, remember, scope, settings_for
from tokenizers import Tokenizer

from precall.engine.encoding.minilm import CARD
from precall.proto import embedding_pb2
from precall.scoring.vectors import FLOAT32, from_bytes
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server

QUESTION = "What food must Dana avoid?"


@pytest.fixture
async def caller(tmp_path):
    settings = settings_for(tmp_path / "data", reranker="minilm")
    async with (
        running_server(settings) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        issued = await admin("AdminService/CreateKey", tenant_id="acme")
        yield Caller(channel, issued.secret)


async def test_meaning_is_found_and_the_clients_encoder_agrees(caller, tmp_path):
    await remember(
        caller, DANA, "The kettle is broken", "Dana is allergic to peanuts", "Dana likes sailing boats"
    )
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query=QUESTION)
    assert reply.results[0].memory.text == "Dana is allergic to peanuts"
    assert reply.model_fingerprint == CARD.fingerprint

    chunks = await caller("EmbeddingService/GetClientEncoder", model_fingerprint=CARD.fingerprint)
    manifest = chunks[0].manifest
    assert manifest.format == embedding_pb2.CLIENT_ENCODER_FORMAT_ONNX
    assert (manifest.dimension, manifest.max_tokens, manifest.agreement) == (384, 256, 1.0)
    assert all(len(chunk.data) <= 1024 * 1024 for chunk in chunks[1:])
    content = b"".join(chunk.data for chunk in chunks[1:])
    for file in manifest.files:
        data, content = content[: file.size_bytes], content[file.size_bytes :]
        assert hashlib.sha256(data).hexdigest() == file.sha256
        (tmp_path / file.name).write_bytes(data)
    assert not content

    tokens = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(QUESTION).ids
    session = onnxruntime.InferenceSession(tmp_path / "encoder.onnx")
    ids = np.array([tokens], np.int64)
    (local,) = session.run(["vectors"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    embedded = await caller(
        "EmbeddingService/Embed", texts=[QUESTION], role=embedding_pb2.TEXT_ROLE_QUERY, format=1
    )
    (served,) = from_bytes(embedded.vectors.data, count=1, dimension=384, dtype=FLOAT32)
    assert float(local[0] @ served) >= 0.9999


async def test_the_small_reranker_puts_the_answer_first(caller):
    documents = ["The kettle is broken", "Dana is allergic to peanuts, a food she avoids", "Dana sails"]
    reply = await caller("EmbeddingService/Rerank", query=QUESTION, documents=documents)
    scores = from_bytes(reply.scores, count=3, dimension=1, dtype=FLOAT32)[:, 0]
    assert int(np.argmax(scores)) == 1 and all(0.0 <= score <= 1.0 for score in scores)
    assert [usage.used for usage in reply.usage] == [usage.given for usage in reply.usage]
