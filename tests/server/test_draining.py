"""The end of a drain: whoever still waits then is told so, and is not cut off without a word."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from fakes.reranker import WordReranker
from harness import Caller, settings_for

from precall.engine.encoding.encoder import EncodedBatch, TokenizedText
from precall.engine.encoding.reranker import RerankedBatch
from precall.proto import embedding_pb2
from precall.server.admin_key import read_admin_key
from precall.server.app import PrecallServer
from precall.server.call import Call, current_call
from precall.server.model import ServedModel
from precall.server.services import embedding

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


@pytest.mark.parametrize("held_model", ["encoder", "next encoder", "reranker"])
async def test_what_waits_for_a_model_when_the_grace_ends_is_told_that_the_server_drains(
    tmp_path: Path, held_model: str, monkeypatch: pytest.MonkeyPatch
):
    held = Held()
    arrived = asyncio.Semaphore(0)

    def noting_current_call() -> Call:
        arrived.release()
        return current_call()

    monkeypatch.setattr(embedding, "current_call", noting_current_call)
    method = "Rerank" if held_model == "reranker" else "Embed"
    fields = {"role": QUERY, "texts": ["tea"]}, {"role": QUERY, "texts": ["cake", "milk"]}
    if held_model == "encoder":
        model = ServedModel(HeldEncoder(held), "fake")
    elif held_model == "next encoder":
        first = FakeEncoder(replace(FAKE_CARD, name="first"))
        model = ServedModel(first, "fake", next=ServedModel(HeldEncoder(held), "fake"))
        fields = tuple(each | {"model_fingerprint": FAKE_CARD.fingerprint} for each in fields)
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
        async with asyncio.timeout(10):  # a call that comes after the stop was begun is no call in progress
            for _ in (computing, waiting):
                await arrived.acquire()
        stopping = asyncio.ensure_future(server.stop())
        failure = await waiting
        held.gate.set()
        assert (failure.code, failure.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert not (await computing).errors
        await stopping
