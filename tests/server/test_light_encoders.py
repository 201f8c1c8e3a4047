"""The encoder for clients of a large model: made once, when it is first asked for, and published."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from fakes.letters import Letters
from harness import Caller, Stage, read_admin_key, settings_for
from probing import http

from precall.engine.encoding import light_making
from precall.engine.encoding.encoder import EncodedBatch, TokenizedText
from precall.engine.encoding.exported import ExportedEncoder, ExportedFile
from precall.engine.encoding.light_encoder import MAP_NAME, SmallModel
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.encoding.minilm import CARD
from precall.engine.errors import ModelUnavailable
from precall.proto import embedding_pb2
from precall.server.app import running_server
from precall.server.light_encoders import FOLDER_NAME
from precall.server.model import ServedModel

METHOD = "EmbeddingService/GetClientEncoder"
FILES = {"encoder.onnx": b"graph" * 1000, "tokenizer.json": b"{}"}


class Gated(FakeEncoder):
    """Embeds the texts of a light encoder, which come in batches, once ``gate`` is open; a probe at once."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.learned_from = 0

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        if len(texts) > 1:
            assert self.gate.wait(30)
            self.learned_from += len(texts)
        return super().encode(texts)


@dataclass(frozen=True, slots=True)
class Publishing:
    """A server whose model is too large for clients."""

    caller: Caller
    encoder: Gated
    folder: Path
    stage: Stage

    async def made(self) -> tuple[embedding_pb2.ClientEncoderManifest, bytes]:
        """Ask until it is there, as a client does."""
        async with asyncio.timeout(60):
            while True:
                try:
                    manifest, *rest = await self.caller(METHOD)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    await asyncio.sleep(0.02)
                else:
                    return manifest.manifest, b"".join(chunk.data for chunk in rest)


@pytest.fixture(autouse=True)
def _no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_making, "SmallEncoder", lambda _: Letters())


def small_model(folder: Path) -> SmallModel:
    folder.mkdir(exist_ok=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return SmallModel(ExportedEncoder(folder, tuple(ExportedFile.of(folder / name) for name in FILES)), CARD)


@asynccontextmanager
async def publishing(
    tmp_path: Path, find_small: Callable[[], SmallModel] | None = None, *, open_gate: bool = True
) -> AsyncIterator[Publishing]:
    encoder = Gated()
    if open_gate:
        encoder.gate.set()
    find = find_small if find_small is not None else lambda: small_model(tmp_path / "small")
    light = LightSettings(find, fitted=64, least_fitted=32, measured=16)
    settings = settings_for(tmp_path / "data")
    async with (
        running_server(settings, lambda _: ServedModel(encoder, "fake", light=light)) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        admin = Caller(channel, read_admin_key(settings.data_dir))
        stage = Stage(endpoints, settings, encoder, channel, admin)
        yield Publishing(admin, encoder, settings.data_dir / FOLDER_NAME, stage)
        encoder.gate.set()


async def test_it_is_announced_with_both_fingerprints_and_what_was_measured(tmp_path: Path) -> None:
    async with publishing(tmp_path) as server:
        manifest, content = await server.made()
        assert manifest.model_fingerprint == FAKE_CARD.fingerprint
        assert manifest.encoder_fingerprint not in ("", FAKE_CARD.fingerprint, CARD.fingerprint)
        assert manifest.format == embedding_pb2.CLIENT_ENCODER_FORMAT_LEARNED_MAP
        assert (manifest.dimension, manifest.max_tokens) == (FAKE_CARD.dimension, CARD.max_tokens)
        assert list(manifest.scripts) == list(CARD.scripts)
        assert 0 < manifest.score_error < manifest.distance_error < 2
        assert 0 <= manifest.top_ten_overlap <= 1 and -1 <= manifest.agreement <= 1
        assert [file.name for file in manifest.files] == [*FILES, MAP_NAME]
        for file in manifest.files:
            part, content = content[: file.size_bytes], content[file.size_bytes :]
            assert hashlib.sha256(part).hexdigest() == file.sha256
        assert not content
        _, page = await http(server.stage, "/metrics")
        labels = f'measure="score",model="{FAKE_CARD.fingerprint}"'
        assert f"precall_light_encoder_agreement{{{labels}}}" in page


async def test_until_it_is_made_clients_are_told_to_ask_again_and_it_is_made_once(tmp_path: Path) -> None:
    async with publishing(tmp_path, open_gate=False) as server:
        failures = await asyncio.gather(*(failure_of(server.caller(METHOD)) for _ in range(3)))
        assert {failure.reason for failure in failures} == {"MODEL_UNAVAILABLE"}
        server.encoder.gate.set()
        first, second = await asyncio.gather(server.made(), server.made())
        assert first == second
        once = 64 + 2 * 16
        assert once - 6 <= server.encoder.learned_from <= once, "a batch of one is not counted"


async def test_another_start_finds_it_on_disk(tmp_path: Path) -> None:
    async with publishing(tmp_path) as server:
        first = await server.made()
    async with publishing(tmp_path, open_gate=False) as server:
        assert await server.made() == first


@pytest.mark.parametrize("damage", [b"", None])
async def test_a_damaged_file_is_not_served_to_its_end_and_made_anew(
    tmp_path: Path, damage: bytes | None
) -> None:
    async with publishing(tmp_path) as server:
        first = await server.made()
        (path,) = server.folder.glob(f"*/{MAP_NAME}")
        sound = path.read_bytes()
        path.write_bytes(damage if damage is not None else sound[:-1] + bytes([sound[-1] ^ 1]))
        failure = await failure_of(server.caller(METHOD))
        assert failure.reason == "MODEL_UNAVAILABLE" and MAP_NAME in failure.message
        assert await server.made() == first
        assert path.read_bytes() == sound


async def test_what_cannot_be_made_is_said_and_not_tried_for_every_client(tmp_path: Path) -> None:
    tries = 0

    def missing() -> SmallModel:
        nonlocal tries
        tries += 1
        raise ModelUnavailable("the small model is not installed")

    async with publishing(tmp_path, missing) as server:
        failure = await failure_of(server.made())
        assert failure.reason == "NOT_SUPPORTED" and "not installed" in failure.message
        assert (await failure_of(server.caller(METHOD))).reason == "NOT_SUPPORTED"
        assert tries == 1


async def test_a_server_that_stops_gives_it_up(tmp_path: Path) -> None:
    async with publishing(tmp_path, open_gate=False) as server:
        await failure_of(server.caller(METHOD))
        threading.Timer(0.3, server.encoder.gate.set).start()  # the pass on the device ends by itself
    assert not list(server.folder.glob("*"))
