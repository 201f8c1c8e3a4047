"""A small model and a map in this process: what it makes, what it says of it, and what is refused."""

import asyncio
import dataclasses
import io
import math
from pathlib import Path

import grpc
import numpy as np
import pytest
from fake_server import FakeServer, Refused
from pushes import SCOPE, Stored
from settable import DIMENSION, FINGERPRINT
from test_encoder import publish, tiny_onnx, tiny_tokenizer

from precall.client import AsyncClient, ClientOptions, LocalEncoding, NumericsError
from precall.client.encoder_store import EncoderDamaged, EncoderFile, LearnedMap, StoredEncoder, is_sound
from precall.client.light_model import LightModel
from precall.client.onnx_model import OnnxModel
from precall.scoring.approximation import UNREADABLE, Approximation

APPROXIMATION = Approximation(distance=0.4, score=0.03)
"""Of the map below, as a server would have measured it."""
LEARNED = {
    "format": "CLIENT_ENCODER_FORMAT_LEARNED_MAP",
    "dimension": DIMENSION,
    "distance_error": 0.5,
    "score_error": 0.25,
    "top_ten_overlap": 0.75,
}


def learned_map(**changes: object) -> LearnedMap:
    learned = LearnedMap(dimension=6, scripts=("latin",), approximation=APPROXIMATION)
    return dataclasses.replace(learned, **changes)


def map_file(rows: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


def rows(dimension: int = 6, small: int = 4) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(small + 1, dimension)).astype(np.float32)


@pytest.fixture
def stored(tmp_path: Path) -> StoredEncoder:
    pytest.importorskip("onnxruntime")
    files = {
        "encoder.onnx": tiny_onnx(),
        "tokenizer.json": tiny_tokenizer(),
        "map.npy": map_file(rows()),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return StoredEncoder(
        folder=tmp_path,
        model_fingerprint=FINGERPRINT,
        encoder_fingerprint="encoder-1",
        max_tokens=3,
        query_prompt="",
        files=tuple(EncoderFile(name, 0, "") for name in files),
    )


def loaded(stored: StoredEncoder, learned: LearnedMap | None = None) -> LightModel:
    return LightModel(stored, learned or learned_map(), OnnxModel(stored, threads=1))


def test_a_query_goes_through_the_map_and_says_how_far_it_may_be_off(stored: StoredEncoder) -> None:
    small = OnnxModel(stored, threads=1).encode("trip pune").vector
    made = loaded(stored).encode("trip pune")
    expected = small @ rows()[:-1] + rows()[-1]
    np.testing.assert_allclose(made.vector, expected / np.linalg.norm(expected), rtol=1e-5)
    assert made.vector.dtype == np.float32 and made.approximation == APPROXIMATION
    assert not made.truncated and loaded(stored).encode("trip pune trip pune").truncated
    assert loaded(stored).model_fingerprint == FINGERPRINT


@pytest.mark.parametrize("query", ["पुणे की यात्रा", "trip पुणे", "meri Pune ki yatra kab hai"])
def test_what_the_small_model_cannot_read_is_worth_nothing(stored: StoredEncoder, query: str) -> None:
    assert loaded(stored).encode(query).approximation == UNREADABLE
    assert loaded(stored, learned_map(scripts=())).encode(query).approximation == APPROXIMATION


@pytest.mark.parametrize(
    "content",
    [
        map_file(rows(dimension=5)),
        map_file(rows(small=3)),
        map_file(rows().astype(np.float64)),
        map_file(rows().ravel()),
        map_file(np.where(rows() > 1, np.float32(math.nan), rows())),
        map_file(rows())[:-7],
        b"",
    ],
    ids=["dimension", "small", "type", "flat", "nan", "cut", "empty"],
)
def test_a_map_that_does_not_fit_is_refused(stored: StoredEncoder, content: bytes) -> None:
    (stored.folder / "map.npy").write_bytes(content)
    with pytest.raises(EncoderDamaged):
        loaded(stored)


def test_a_file_that_would_run_code_is_refused(stored: StoredEncoder) -> None:
    (stored.folder / "map.npy").write_bytes(map_file(np.array([print], dtype=object)))
    with pytest.raises(EncoderDamaged):
        loaded(stored)


def test_a_vector_of_no_length_is_an_error(stored: StoredEncoder) -> None:
    small = OnnxModel(stored, threads=1).encode("trip").vector
    flat = np.zeros((5, 6), np.float32)
    flat[-1] = 1.0
    flat[:4] = -np.outer(small, np.ones(6, np.float32))
    (stored.folder / "map.npy").write_bytes(map_file(flat))
    model = loaded(stored)
    model._rows[-1] = model._rows[:4].T @ -small
    with pytest.raises(NumericsError):
        model.encode("trip")


def light_files() -> dict[str, bytes]:
    return {
        "encoder.onnx": tiny_onnx(),
        "tokenizer.json": tiny_tokenizer(),
        "map.npy": map_file(rows(DIMENSION)),
    }


@pytest.fixture
def wanted(options: ClientOptions) -> ClientOptions:
    pytest.importorskip("onnxruntime")
    return dataclasses.replace(options, local_encoding=LocalEncoding.REQUIRED)


class TestSupply:
    async def test_reads_are_answered_here_and_the_vector_goes_nowhere(
        self, server: FakeServer, wanted: ClientOptions
    ) -> None:
        publish(server, light_files(), **LEARNED)
        server.add(Stored(text="peanut"))
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(20) and session.state.encoder_ready
            read = await session.read("peanut")
            assert (read.source.value, read.decision.value) == ("cache", "complete")
            assert not server.calls.get("Search")
            await session.read("peanut", min_version=read.version + 1)  # only the server can know that
            (request,) = server.calls["Search"]
            assert request.query == "peanut" and not request.HasField("query_vector")

    async def test_an_order_that_hangs_on_the_error_is_left_to_the_server(
        self, server: FakeServer, wanted: ClientOptions
    ) -> None:
        publish(server, light_files(), **LEARNED)
        for number in range(30):
            server.add(Stored(text=f"peanut {number}"))
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(20)
            assert (await session.read("peanut", limit=30)).decision.value == "complete"
            read = await session.read("peanut", limit=10)
            assert (read.source.value, read.decision.value) == ("both", "borderline")
            (request,) = server.calls["Search"]
            assert not request.HasField("query_vector")

    async def test_while_the_server_makes_it_nobody_waits(
        self, server: FakeServer, wanted: ClientOptions
    ) -> None:
        making = Refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE")
        server.refuse["GetClientEncoder"] = [making] * 10_000
        publish(server, light_files(), **LEARNED)
        server.add(Stored(text="peanut"))
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(20) and not session.state.encoder_ready
            server.refuse.clear()
            async with asyncio.timeout(20):
                while (await session.read("peanut")).decision.value != "complete":
                    assert session.state.connected

    async def test_two_clients_on_one_computer_share_the_files(
        self, server: FakeServer, wanted: ClientOptions
    ) -> None:
        publish(server, light_files(), **LEARNED)
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as first,
            AsyncClient(server.target, api_key="key", options=wanted) as second,
            first.session(SCOPE) as one,
            second.session(SCOPE) as two,
        ):
            assert all(await asyncio.gather(one.ready(20), two.ready(20)))
            assert one.state.encoder_ready and two.state.encoder_ready
        (folder,) = (wanted.cache_directory / "encoders").iterdir()
        assert {file.name for file in folder.iterdir()} == {*light_files(), "manifest.json"}

    async def test_one_of_another_model_is_refused(self, server: FakeServer, wanted: ClientOptions) -> None:
        publish(server, light_files(), **LEARNED, model_fingerprint="another")
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            await server.called("GetClientEncoder", 2)
            assert not session.state.encoder_ready


def test_files_of_another_measure_are_not_taken_for_these(stored: StoredEncoder) -> None:
    """The errors stand in the manifest alone: one that was not written with them is not trusted."""
    assert not is_sound(dataclasses.replace(stored, map=learned_map()))
