"""The models that a server can run, behind the real services: a Qwen3 and its reranker, end to end."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FakeEncoder
from harness import DANA, Caller, remember, search, settings_for

from precall.engine.batching.settings import BatchingSettings
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import ConfigurationError, ModelUnavailable
from precall.proto import embedding_pb2
from precall.scoring.vectors import FLOAT16, FLOAT32, from_bytes
from precall.server import model as model_module
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server
from precall.server.model import PACKED_ON_GPU, PACKED_ON_PROCESSOR, ServedModel, load_model
from precall.server.settings import ServerSettings
from tests.fakes.tiny_qwen3 import TinyQwen3

TEXTS = ["Dana is allergic to peanuts", "The kettle is broken", "Dana likes sailing boats"]
QUERY, DOCUMENT = embedding_pb2.TEXT_ROLE_QUERY, embedding_pb2.TEXT_ROLE_DOCUMENT


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``embedding`` and ``reranker``, each a model without size."""
    folder = tmp_path_factory.mktemp("tiny-qwen3")
    TinyQwen3().save(folder / "embedding")
    TinyQwen3(seed=1, closing=False, language_model=True).save(folder / "reranker")
    return folder


@pytest.fixture
def settings(tmp_path: Path, folders: Path) -> ServerSettings:
    return settings_for(
        tmp_path / "data",
        model=str(folders / "embedding"),
        runtime="torch",
        dimension=48,
        query_task="Find what the caller said",
        max_tokens=200,
        reranker=str(folders / "reranker"),
        reranker_max_tokens=400,
        probe_seconds=5.0,
        light_encoder=False,
    )


@pytest.fixture
async def caller(settings: ServerSettings) -> AsyncIterator[Caller]:
    async with (
        running_server(settings) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        issued = await admin("AdminService/CreateKey", tenant_id="acme")
        yield Caller(channel, issued.secret)


async def test_a_qwen3_embeds_finds_and_reranks(caller: Caller) -> None:
    card = await caller("EmbeddingService/GetModel")
    assert (card.runtime, card.dimension, card.max_tokens) == ("torch", 48, 200)
    assert card.query_prompt == "Instruct: Find what the caller said\nQuery:{text}"

    await remember(caller, DANA, *TEXTS)
    assert set(await search(caller, DANA, "sailing")) == set(TEXTS)

    as_query, as_document = [
        await embedded(caller, TEXTS[0], role, card.dimension) for role in (QUERY, DOCUMENT)
    ]
    prompted = await embedded(caller, card.query_prompt.replace("{text}", TEXTS[0]), DOCUMENT, card.dimension)
    assert float(as_query @ as_document) < 0.99
    assert float(as_query @ prompted) >= 0.999

    failure = await failure_of(caller("EmbeddingService/GetClientEncoder"))
    assert (failure.code, failure.reason) == (grpc.StatusCode.UNIMPLEMENTED, "NOT_SUPPORTED")
    assert card.name in failure.message

    reply = await caller("EmbeddingService/Rerank", query="What food?", documents=[*TEXTS, "", TEXTS[0]])
    scores = np.frombuffer(reply.scores, FLOAT32)
    assert scores.shape == (5,)
    assert ((scores[[0, 1, 2, 4]] > 0) & (scores <= 1)[[0, 1, 2, 4]]).all()
    assert scores[0] == pytest.approx(scores[4], abs=1e-3)
    assert [(error.position, error.reason) for error in reply.errors] == [(3, "INVALID_INPUT")]
    assert len(reply.usage) == 5 and reply.usage[0].given == reply.usage[0].used > 20
    assert {timing.stage for timing in reply.timings} == {"tokenize", "queue", "device", "total"}
    again = await caller(
        "EmbeddingService/Rerank",
        query="What food?",
        documents=TEXTS,
        model_fingerprint=reply.model_fingerprint,
    )
    np.testing.assert_allclose(np.frombuffer(again.scores, FLOAT32), scores[:3], atol=1e-3)


async def embedded(caller: Caller, text: str, role: int, dimension: int) -> np.ndarray:
    reply = await caller("EmbeddingService/Embed", texts=[text], role=role)
    (row,) = from_bytes(reply.vectors.data, count=1, dimension=dimension, dtype=FLOAT16)
    return row.astype(np.float32)


def test_what_is_loaded_is_batched_without_padding_and_closed_as_one(settings: ServerSettings) -> None:
    served = load_model(settings)
    assert served.batching is PACKED_ON_PROCESSOR and not served.batching.padded
    assert served.reranker is not None and served.reranker.card.max_tokens == 400
    assert served.exported is None
    encoder = FakeEncoder()
    closed: list[str] = []
    ServedModel(encoder, "fake", reranker=Closing(closed)).close()
    assert encoder.closed and closed == ["reranker"]


async def test_a_server_batches_as_its_model_wants_and_closes_both_models(tmp_path: Path) -> None:
    closed: list[str] = []
    encoder = FakeEncoder()
    served = ServedModel(
        encoder, "fake", reranker=Closing(closed), batching=BatchingSettings(max_text_characters=5)
    )
    settings = settings_for(tmp_path / "data")
    async with (
        running_server(settings, lambda _: served) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        issued = await admin("AdminService/CreateKey", tenant_id="acme")
        reply = await Caller(channel, issued.secret)(
            "EmbeddingService/Embed", texts=["five!", "longer"], role=DOCUMENT
        )
        assert [(error.position, error.reason) for error in reply.errors] == [(1, "TEXT_TOO_LONG")]
        assert not closed
    assert encoder.closed and closed == ["reranker"]


class Closing:
    def __init__(self, closed: list[str]) -> None:
        self._closed = closed

    def close(self) -> None:
        self._closed.append("reranker")


def test_a_gpu_gets_larger_batches(monkeypatch: pytest.MonkeyPatch, settings: ServerSettings) -> None:
    monkeypatch.setattr(model_module, "has_gpu", lambda: True)
    assert load_model(settings.model_copy(update={"reranker": ""})).batching is PACKED_ON_GPU


def test_the_default_model_has_an_encoder_for_clients_and_may_stand_beside_a_reranker(
    tmp_path: Path, folders: Path
) -> None:
    served = load_model(
        settings_for(tmp_path, runtime="onnx", reranker=str(folders / "reranker"), reranker_max_tokens=0)
    )
    assert (served.runtime, served.encoder.card.dimension) == ("onnxruntime", 384)
    assert served.exported is not None and served.reranker is not None
    assert served.batching.padded
    assert served.encoder.tokenize("a", TextRole.QUERY, truncate=False).usage.used == 3


def test_a_reranker_that_cannot_be_loaded_takes_the_encoder_with_it(
    tmp_path: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from precall.engine.encoding.qwen3 import Qwen3Encoder

    closed: list[object] = []
    monkeypatch.setattr(Qwen3Encoder, "close", lambda self: closed.append(self))
    settings = settings_for(
        tmp_path, model=str(folders / "embedding"), max_tokens=50, reranker=str(tmp_path / "absent")
    )
    with pytest.raises(ConfigurationError, match="absent"):
        load_model(settings)
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "minilmm"}, "minilmm"),
        ({"runtime": "vllm"}, "auto or onnx"),
        ({"dimension": 128}, "dimension"),
        ({"reranker": "minilmm"}, "minilmm"),
    ],
)
def test_settings_that_do_not_fit_are_told_in_one_line(tmp_path: Path, changes, words: str) -> None:
    with pytest.raises((ConfigurationError, ModelUnavailable), match=words) as caught:
        load_model(settings_for(tmp_path, **changes))
    assert "\n" not in caught.value.message
