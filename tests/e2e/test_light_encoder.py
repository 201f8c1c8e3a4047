"""A model that is too large for agents: its server makes a light encoder, and agents answer from caches."""

import asyncio
import uuid
from pathlib import Path

import pytest

from precall.client import AsyncClient, ClientOptions, LocalEncoding, MemoryDraft
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings
from precall.server.app import running_server
from precall.server.model import PACKED_ON_PROCESSOR, ServedModel
from precall.server.settings import ServerSettings
from tests.fakes.tiny_qwen3 import TinyQwen3

SCOPE = {"customer": "acme", "user": "dana"}
FACTS = ("Dana is allergic to peanuts.", "The trip to Pune is in March.", "The spare keys are with Ravi.")
QUESTION = "What food must Dana avoid?"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    pytest.importorskip("torch")
    folder = TinyQwen3().save(tmp_path_factory.mktemp("light") / "tiny-qwen3")
    encoder = Qwen3Encoder(Qwen3EncoderSettings(model=folder))
    light = LightSettings(fitted=64, least_fitted=32, measured=16)
    return ServedModel(encoder, "torch", batching=PACKED_ON_PROCESSOR, light=light)


async def test_two_agents_of_a_large_model_read_from_their_caches(model: ServedModel, tmp_path: Path) -> None:
    settings = ServerSettings.load(
        {"data_dir": tmp_path / "data", "port": 0, "metrics_port": 0, "probe_seconds": 60.0}, environment={}
    )
    async with running_server(settings, lambda _: model) as endpoints:
        admin_key = (settings.data_dir / "admin.key").read_text().strip()
        off = ClientOptions(local_encoding=LocalEncoding.OFF)
        async with AsyncClient(endpoints.target, api_key=admin_key, options=off) as admin:
            await admin.admin.create_tenant("acme", ladder=("customer", "user"))
            key = (await admin.admin.create_key("acme")).secret
        options = ClientOptions(local_encoding=LocalEncoding.REQUIRED, cache_directory=tmp_path / "cache")
        async with (
            AsyncClient(endpoints.target, api_key=key, options=options) as first,
            AsyncClient(endpoints.target, api_key=key, options=options) as second,
        ):
            await first.memories.write(SCOPE, [MemoryDraft(text=text) for text in FACTS])
            for client in (first, second):
                async with client.session(SCOPE, str(uuid.uuid4())) as session:
                    assert await session.ready(60)
                    session.observe("user", QUESTION)
                    async with asyncio.timeout(120):
                        while not session.state.encoder_ready:  # noqa: ASYNC110 - told by its state alone
                            await asyncio.sleep(0.1)
                    read = await session.read(QUESTION, deadline_ms=20_000)
                    assert (read.source.value, read.decision.value) == ("cache", "complete")
                    assert {item.memory.text for item in read.items} == set(FACTS)
                    asked = await session.search(QUESTION)
                    assert asked.model_fingerprint == model.card.fingerprint
                    assert {item.memory.id for item in asked.items} == {item.memory.id for item in read.items}
