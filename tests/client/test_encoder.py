"""The local encoder: fetched, checked, kept, run; and what happens when any of it fails."""

import asyncio
import dataclasses
import hashlib
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from fake_server import FakeServer
from pushes import SCOPE, Stored
from settable import DIMENSION, FINGERPRINT, term_vector

from precall.client import (
    AsyncClient,
    ClientOptions,
    EncodedQuery,
    ExtraMissing,
    FingerprintMismatch,
    LocalEncoding,
    NotSupported,
    NumericsError,
    Unavailable,
    onnx_model,
)
from precall.client.encoder import LocalEncoder
from precall.client.encoder_store import EncoderDamaged, EncoderStore, StoredEncoder, is_sound
from precall.client.onnx_model import OnnxModel
from precall.client.transport import Transport
from precall.proto import embedding_pb2


class SlowModel:
    """Waits for permission before each answer."""

    model_fingerprint = FINGERPRINT

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Semaphore(0)
        self.fail = False

    def encode(self, text: str) -> EncodedQuery:
        self.asked.append(text)
        self.go.acquire()
        if self.fail:
            raise NumericsError("no vector")
        return EncodedQuery(term_vector(text))


@pytest.fixture
def model() -> SlowModel:
    return SlowModel()


@pytest.fixture
async def encoder(model: SlowModel) -> AsyncIterator[LocalEncoder]:
    made = LocalEncoder(model, remembered=2)
    yield made
    made.close()
    for _ in range(50):
        model.go.release()


class TestLocalEncoder:
    async def test_the_same_text_in_flight_is_computed_once(
        self, encoder: LocalEncoder, model: SlowModel
    ) -> None:
        both = asyncio.gather(encoder.encode("a"), encoder.encode("a"))
        model.go.release()
        first, second = await both
        assert first is second and model.asked == ["a"]
        assert await encoder.encode("a") is first

    async def test_a_reader_that_gives_up_does_not_take_it_from_others(
        self, encoder: LocalEncoder, model: SlowModel
    ) -> None:
        hasty = asyncio.create_task(encoder.encode("a"))
        patient = asyncio.create_task(encoder.encode("a"))
        await asyncio.sleep(0)
        hasty.cancel()
        model.go.release()
        assert (await patient).vector.shape == (DIMENSION,)

    async def test_only_the_newest_warm_up_waits(self, encoder: LocalEncoder, model: SlowModel) -> None:
        for text in ("so", "so about", "so about that"):
            encoder.warm(text)
        model.go.release(3)
        await encoder.encode("so about that")
        assert model.asked == ["so", "so about that"]

    async def test_what_is_remembered_is_bounded(self, encoder: LocalEncoder, model: SlowModel) -> None:
        model.go.release(4)
        for text in ("a", "b", "c", "a"):
            await encoder.encode(text)
        assert model.asked == ["a", "b", "c", "a"]

    async def test_a_failure_is_not_remembered(self, encoder: LocalEncoder, model: SlowModel) -> None:
        model.fail = True
        model.go.release(2)
        with pytest.raises(NumericsError):
            await encoder.encode("a")
        model.fail = False
        assert (await encoder.encode("a")).vector.shape == (DIMENSION,)


def tiny_onnx() -> bytes:
    """(input_ids, attention_mask) -> the unit sum of a row a token; token 3 is a zero row."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    table = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    table[3] = 0.0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axis"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "summed"], ["vectors"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", 4])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([2], np.int64), "axis"),
            numpy_helper.from_array(np.array([1], np.int64), "summed"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def tiny_tokenizer() -> bytes:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "pune": 1, "peanut": 2, "nothing": 3, "trip": 4}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return made.to_str().encode()


def publish(server: FakeServer, files: dict[str, bytes], **changes: object) -> None:
    server.encoder_files = files
    server.encoder_manifest = embedding_pb2.ClientEncoderManifest(
        model_fingerprint=FINGERPRINT,
        encoder_fingerprint="encoder-1",
        format="CLIENT_ENCODER_FORMAT_ONNX",
        dimension=4,
        max_tokens=3,
        files=[
            embedding_pb2.ClientEncoderFile(
                name=name, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
            )
            for name, content in files.items()
        ],
    )
    for name, value in changes.items():
        setattr(server.encoder_manifest, name, value)


FILES = {"encoder.onnx": b"o" * 2500, "tokenizer.json": b"t" * 1200, "empty.txt": b""}


@pytest.fixture
async def store(server: FakeServer, options: ClientOptions) -> AsyncIterator[EncoderStore]:
    publish(server, FILES)
    transport = Transport(server.target, api_key="key", options=options)
    transport.open()
    yield EncoderStore(options.cache_directory / "encoders", transport)
    await transport.close()


class TestStore:
    async def test_files_are_fetched_checked_and_kept(self, store: EncoderStore, server: FakeServer) -> None:
        stored = await store.fetch(FINGERPRINT)
        assert {path.name for path in stored.folder.iterdir()} == {*FILES, "manifest.json"}
        assert all((stored.folder / name).read_bytes() == content for name, content in FILES.items())
        server.encoder_files = {}  # the next fetch can only come from disk
        assert await store.fetch(FINGERPRINT) == stored

    @pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "manifest"])
    async def test_a_damaged_file_is_fetched_again(self, store: EncoderStore, damage: str) -> None:
        stored = await store.fetch(FINGERPRINT)
        victim = stored.folder / "encoder.onnx"
        if damage == "flip":
            victim.write_bytes(b"x" + victim.read_bytes()[1:])
        elif damage == "truncate":
            victim.write_bytes(victim.read_bytes()[:10])
        elif damage == "delete":
            victim.unlink()
        else:
            (stored.folder / "manifest.json").write_text("{")
        assert not is_sound(stored)
        await store.fetch(FINGERPRINT)
        assert is_sound(stored)

    async def test_damage_on_the_way_leaves_nothing_behind(
        self, store: EncoderStore, server: FakeServer
    ) -> None:
        server.encoder_files = FILES | {"encoder.onnx": b"x" * 2500}
        with pytest.raises(EncoderDamaged):
            await store.fetch(FINGERPRINT)
        server.encoder_files = {"encoder.onnx": b"o" * 100}
        with pytest.raises(Unavailable, match="early"):
            await store.fetch(FINGERPRINT)
        server.encoder_files = FILES
        stored = await store.fetch(FINGERPRINT)
        assert not list(stored.folder.glob("*.part"))

    async def test_two_at_once_both_end_well(self, store: EncoderStore) -> None:
        first, second = await asyncio.gather(store.fetch(FINGERPRINT), store.fetch(FINGERPRINT))
        assert first == second and is_sound(first)

    @pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden"])
    async def test_names_that_lead_elsewhere_are_refused(
        self, store: EncoderStore, server: FakeServer, name: str
    ) -> None:
        publish(server, {name: b"x"})
        with pytest.raises(EncoderDamaged):
            await store.fetch(FINGERPRINT)
        publish(server, FILES, encoder_fingerprint=name)
        with pytest.raises(EncoderDamaged):
            await store.fetch(FINGERPRINT)

    async def test_what_this_client_cannot_run_is_said(self, store: EncoderStore, server: FakeServer) -> None:
        publish(server, FILES, model_fingerprint="another")
        with pytest.raises(FingerprintMismatch):
            await store.fetch(FINGERPRINT)
        publish(server, FILES, format=embedding_pb2.CLIENT_ENCODER_FORMAT_TOKEN_TABLE)
        with pytest.raises(NotSupported):
            await store.fetch(FINGERPRINT)


class TestOnnx:
    @pytest.fixture
    def stored(self, tmp_path: Path) -> StoredEncoder:
        pytest.importorskip("onnxruntime")
        from precall.client.encoder_store import EncoderFile

        (tmp_path / "encoder.onnx").write_bytes(tiny_onnx())
        (tmp_path / "tokenizer.json").write_bytes(tiny_tokenizer())
        return StoredEncoder(
            folder=tmp_path,
            model_fingerprint=FINGERPRINT,
            encoder_fingerprint="encoder-1",
            max_tokens=3,
            query_prompt="",
            files=(EncoderFile("encoder.onnx", 0, ""), EncoderFile("tokenizer.json", 0, "")),
        )

    def test_a_query_becomes_a_unit_vector(self, stored: StoredEncoder) -> None:
        made = OnnxModel(stored, threads=1).encode("trip pune")
        assert made.vector.dtype == np.float32 and made.vector.shape == (4,)
        assert np.linalg.norm(made.vector) == pytest.approx(1.0, abs=1e-6) and not made.truncated

    def test_the_runtime_is_told_to_keep_to_itself(
        self, stored: StoredEncoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
        OnnxModel(stored, threads=1)
        assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"

    def test_truncation_is_said(self, stored: StoredEncoder) -> None:
        model = OnnxModel(stored, threads=1)
        at_limit, over = model.encode("trip pune peanut"), model.encode("trip pune peanut pune")
        assert not at_limit.truncated and over.truncated
        assert np.array_equal(at_limit.vector, over.vector)

    def test_a_zero_vector_is_an_error(self, stored: StoredEncoder) -> None:
        with pytest.raises(NumericsError):
            OnnxModel(stored, threads=1).encode("nothing")

    def test_the_query_prompt_is_applied(self, stored: StoredEncoder) -> None:
        prompted = dataclasses.replace(stored, query_prompt="trip {text}")
        assert np.array_equal(
            OnnxModel(prompted, threads=1).encode("pune").vector,
            OnnxModel(stored, threads=1).encode("trip pune").vector,
        )

    def test_without_the_extra_the_error_names_it(
        self, stored: StoredEncoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(onnx_model, "find_spec", lambda name: None)
        with pytest.raises(ExtraMissing, match=r"precall\[local\]"):
            OnnxModel(stored, threads=1)


class TestSupply:
    async def test_a_session_is_ready_with_the_servers_own_encoder(
        self, server: FakeServer, options: ClientOptions
    ) -> None:
        pytest.importorskip("onnxruntime")
        publish(server, {"encoder.onnx": tiny_onnx(), "tokenizer.json": tiny_tokenizer()})
        server.add(Stored(text="peanut"))
        wanted = dataclasses.replace(options, local_encoding=LocalEncoding.REQUIRED)
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(20)
            assert session.state.encoder_ready

    async def test_a_failing_fetch_is_tried_again(self, server: FakeServer, options: ClientOptions) -> None:
        pytest.importorskip("onnxruntime")
        publish(server, {"encoder.onnx": tiny_onnx(), "tokenizer.json": tiny_tokenizer()})
        sound = server.encoder_files
        server.encoder_files = {"encoder.onnx": b"x" * sum(map(len, sound.values()))}
        wanted = dataclasses.replace(options, local_encoding=LocalEncoding.AUTO)
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            await server.called("GetClientEncoder", 2)
            assert not session.state.encoder_ready
            server.encoder_files = sound
            assert await session.ready(20)

    async def test_required_without_the_extra_fails_at_start_and_auto_does_not(
        self, server: FakeServer, options: ClientOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(onnx_model, "find_spec", lambda name: None)
        server.add(Stored(text="peanut"))
        required = dataclasses.replace(options, local_encoding=LocalEncoding.REQUIRED)
        with pytest.raises(ExtraMissing):
            await AsyncClient(server.target, api_key="key", options=required).__aenter__()
        auto = dataclasses.replace(options, local_encoding=LocalEncoding.AUTO)
        async with (
            AsyncClient(server.target, api_key="key", options=auto) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            assert (await session.read("peanut")).source == "server"

    async def test_a_broken_encoder_leaves_it_to_the_server(
        self, server: FakeServer, options: ClientOptions
    ) -> None:
        class Broken:
            model_fingerprint = FINGERPRINT

            async def encode(self, text: str) -> EncodedQuery:
                raise RuntimeError("out of memory")

            def warm(self, text: str) -> None: ...

        server.add(Stored(text="peanut"))
        async with (
            AsyncClient(server.target, api_key="key", options=options, encoder=Broken()) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            read = await session.read("peanut")
            assert (read.source, read.status, read.decision) == ("server", "hit", "unencoded")
