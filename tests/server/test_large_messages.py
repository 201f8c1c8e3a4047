"""Messages beyond gRPC's own 4 MB, both ways; what is too large; and small calls beside large ones."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import settings_for

from precall.bench.mixed_load import EMBED, opened_transports
from precall.client.errors import InvalidInput
from precall.client.transport import Transport
from precall.engine.encoding.encoder import TextRole, TokenizedText
from precall.proto import common_pb2, embedding_pb2
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server
from precall.server.model import ServedModel

GRPC_LIMIT = 4 * 1024 * 1024
"""What gRPC takes on a channel and a server that nobody has told otherwise."""

WIDE = replace(FAKE_CARD, dimension=2_048)


@asynccontextmanager
async def opened(folder: Path, encoder: FakeEncoder, **changes: object) -> AsyncIterator[Transport]:
    settings = settings_for(folder, **changes)
    async with running_server(settings, lambda _: ServedModel(encoder, "fake")) as endpoints:
        admin_key = read_admin_key(settings.data_dir)
        assert admin_key is not None
        async with opened_transports(endpoints.target, admin_key, ("acme",)) as (transport,):
            yield transport


async def embed(transport: Transport, texts: list[str]) -> embedding_pb2.EmbedResponse:
    request = embedding_pb2.EmbedRequest(
        texts=texts,
        role=embedding_pb2.TEXT_ROLE_DOCUMENT,
        format=common_pb2.VECTOR_FORMAT_FLOAT32,
        truncate=True,
    )
    return await transport.call(EMBED, request, deadline_seconds=30.0)


async def test_messages_larger_than_grpcs_own_limit_pass_both_ways(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", FakeEncoder(WIDE)) as transport:
        up = await embed(transport, [f"word{number} " + "x" * 90_000 for number in range(60)])
        assert not up.errors and up.vectors.count == 60

        down = await embed(transport, [f"word{number}" for number in range(1_000)])
        assert len(down.vectors.data) > GRPC_LIMIT
        rows = np.frombuffer(down.vectors.data, "<f4").reshape(1_000, WIDE.dimension)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-3)


async def test_a_message_over_the_servers_limit_is_refused_at_once_and_said_to_be(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", FakeEncoder(), max_message_bytes=1024 * 1024) as transport:
        with pytest.raises(InvalidInput, match=r"larger than max.*split the request") as caught:
            await embed(transport, ["x" * 90_000] * 20)
        assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await embed(transport, ["fine"])).vectors.count == 1


class HeldTokenizer(FakeEncoder):
    """Keeps whoever tokenises a long text until ``go_on`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def tokenize(self, text: str, role: TextRole, *, truncate: bool, **rest: object) -> TokenizedText:
        if len(text) > 10_000:
            self.entered.set()
            assert self.go_on.wait(30)
        return super().tokenize(text, role, truncate=truncate, **rest)


async def test_small_calls_are_answered_while_a_large_one_is_tokenised(tmp_path: Path) -> None:
    encoder = HeldTokenizer()
    async with opened(tmp_path / "data", encoder) as transport:
        large = asyncio.create_task(embed(transport, ["word " * 10_000] * 40))
        assert await asyncio.to_thread(encoder.entered.wait, 30)
        for number in range(5):
            assert (await embed(transport, [f"small {number}"])).vectors.count == 1
        assert not large.done()
        encoder.go_on.set()
        assert (await large).vectors.count == 40
