"""The end of a drain: whoever still waits then is told so, and is not cut off without a word."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from failures import failure_of
from fakes.encoder import FakeEncoder
from fakes.reranker import WordReranker
from harness import Caller, settings_for

from precall.engine.encoding.encoder import EncodedBatch, TokenizedText
from precall.engine.encoding.reranker import RerankedBatch
from precall.proto import embedding_pb2
from precall.server.admin_key import read_admin_key
from precall.server.app import PrecallServer
from precall.server.model import ServedModel

QUERY = embedding_pb2.TEXT_ROLE_QUERY


class Held:
    """A pass waits while ``gate`` is closed; ``entered`` says that one came."""

    def __init__(self) -> None:
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()

    def hold(self) -> None:
        self.entered.clear()
        self.gate.clear()

    def wait(self) -> None:
        self.entered.set()
        assert self.gate.wait(20)


class HeldEncoder(FakeEncoder):
    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        self.held.wait()
        return super().encode(texts)


class HeldReranker(WordReranker):
    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        self.held.wait()
        return super().score(pairs)


@pytest.mark.parametrize("method", ["Embed", "Rerank"])
async def test_what_waits_for_a_model_when_the_grace_ends_is_told_that_the_server_drains(
    tmp_path: Path, method: str
):
    held = Held()
    if method == "Embed":
        model = ServedModel(HeldEncoder(held), "fake")
        fields = {"role": QUERY, "texts": ["tea"]}, {"role": QUERY, "texts": ["cake", "milk"]}
    else:
        model = ServedModel(FakeEncoder(), "fake", reranker=HeldReranker(held))
        fields = {"query": "tea", "documents": ["tea"]}, {"query": "cake", "documents": ["cake"]}
    settings = settings_for(tmp_path / "data", drain_seconds=1.0, probe_seconds=300)
    server = PrecallServer(settings, lambda _: model)
    endpoints = await server.start()
    async with grpc.aio.insecure_channel(endpoints.target) as channel:
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        caller = Caller(channel, (await admin("AdminService/CreateKey", tenant_id="acme")).secret)
        held.hold()
        computing = asyncio.ensure_future(caller(f"EmbeddingService/{method}", **fields[0]))
        assert await asyncio.to_thread(held.entered.wait, 10)
        waiting = asyncio.ensure_future(failure_of(caller(f"EmbeddingService/{method}", **fields[1])))
        stopping = asyncio.ensure_future(server.stop())
        failure = await waiting
        held.gate.set()
        assert (failure.code, failure.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert not (await computing).errors
        await stopping
