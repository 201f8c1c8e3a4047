"""A server with a second model: its settings, how both are loaded, told of, watched and closed."""

import asyncio
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import Caller, Stage, settings_for
from migrating import NEW, NEXT_CARD, OLD, taken, two_models
from probing import http

from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.exported import ExportedEncoder, ExportedFile
from precall.engine.errors import ConfigurationError, FingerprintMismatch, ModelUnavailable
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server
from precall.server.model import PACKED_ON_PROCESSOR, SMALL_ON_PROCESSOR, ServedModel, load_model
from precall.server.settings import ServerSettings
from tests.fakes.tiny_qwen3 import TinyQwen3


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(TinyQwen3().save(tmp_path_factory.mktemp("tiny-qwen3") / "embedding"))


class Closing(FakeEncoder):
    """Says when it is closed; ``fails``: closing it raises."""

    def __init__(self, name: str, closed: list[str], *, fails: bool = False) -> None:
        super().__init__(replace(FAKE_CARD, name=name))
        self._closed, self._fails = closed, fails

    def close(self) -> None:
        self._closed.append(self.card.name)
        if self._fails:
            raise RuntimeError("the device is gone")


def test_settings_come_from_flags_environment_and_file_like_the_first_models(tmp_path: Path) -> None:
    config = tmp_path / "precall.toml"
    config.write_text('next_model = "of/file"\nnext_dimension = 64\nnext_query_task = "Find it"')
    environment = {"PRECALL_NEXT_MODEL": "of/environment", "PRECALL_NEXT_MAX_TOKENS": "100"}
    settings = ServerSettings.load({"next_dimension": 32, "next_model": None}, config, environment)
    assert settings.next_model == "of/environment"
    assert (settings.next_dimension, settings.next_query_task, settings.next_max_tokens) == (
        32,
        "Find it",
        100,
    )
    assert ServerSettings.load({}, None, {}).next_model == ""


@pytest.mark.parametrize("name", ["next_dimension", "next_query_task", "next_max_tokens"])
def test_a_setting_of_a_model_that_is_not_there_is_told(name: str) -> None:
    value = "Find it" if name == "next_query_task" else 64
    with pytest.raises(ConfigurationError, match=rf"setting {name} .* set next_model"):
        ServerSettings.load({name: value}, environment={})


def test_both_are_loaded_each_by_what_computes_it_and_cut_as_it_wants(tmp_path: Path, qwen3: str) -> None:
    """``runtime`` is the first one's; the other one takes it where it can, and its own where it cannot."""
    settings = settings_for(
        tmp_path,
        runtime="onnx",
        next_model=qwen3,
        next_dimension=48,
        next_query_task="Find what the caller said",
        next_max_tokens=50,
    )
    served = load_model(settings)
    try:
        assert (served.runtime, served.card.dimension, served.batching) == (
            "onnxruntime",
            384,
            SMALL_ON_PROCESSOR,
        )
        following = served.next
        assert following is not None and following.next is None
        assert (following.runtime, following.batching) == ("torch", PACKED_ON_PROCESSOR)
        assert (following.card.dimension, following.card.max_tokens) == (48, 50)
        assert following.card.query_prompt.startswith("Instruct: Find what the caller said")
        assert following.exported is None and served.exported is not None
        assert following.encoder.tokenize("a", TextRole.DOCUMENT, truncate=False).usage.used > 0
        assert [each.card for each in served.encoders] == [served.card, following.card]
        assert served.of(following.card.fingerprint) is following
        assert served.of(served.card.fingerprint) is served
        with pytest.raises(
            FingerprintMismatch, match=rf"runs {served.card.name} .* and {following.card.name}"
        ):
            served.of("another")
        assert served.facts["model"] == served.card.name
        assert served.facts["next_model_fingerprint"] == following.card.fingerprint
    finally:
        served.close()


def test_the_other_way_round_the_default_model_is_the_next_one(tmp_path: Path, qwen3: str) -> None:
    served = load_model(settings_for(tmp_path, model=qwen3, runtime="torch", next_model="minilm"))
    try:
        assert served.next is not None
        assert (served.runtime, served.next.runtime) == ("torch", "onnxruntime")
        assert served.exported is None and served.next.exported is not None
    finally:
        served.close()


def test_a_shorter_cut_of_a_model_is_another_model(tmp_path: Path, qwen3: str) -> None:
    served = load_model(settings_for(tmp_path, model=qwen3, next_model=qwen3, next_dimension=48))
    assert [each.card.dimension for each in served.encoders] == [64, 48]
    served.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"next_model": "minilmm"}, "minilmm"),
        ({"next_model": "minilm"}, "next_model and model are the same"),
        ({"next_model": "minilm", "next_dimension": 128}, "dimension"),
        ({"next_model": "QWEN", "reranker": "absent"}, "absent"),
    ],
)
def test_what_cannot_be_loaded_takes_the_others_with_it(
    tmp_path: Path, qwen3: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], words: str
) -> None:
    from precall.engine.encoding.onnx_encoder import OnnxEncoder
    from precall.engine.encoding.qwen3 import Qwen3Encoder

    closed: list[type] = []
    for kind in (OnnxEncoder, Qwen3Encoder):
        monkeypatch.setattr(kind, "close", lambda self: closed.append(type(self)))
    settings = settings_for(tmp_path, **{k: qwen3 if v == "QWEN" else v for k, v in changes.items()})
    with pytest.raises((ConfigurationError, ModelUnavailable), match=words):
        load_model(settings)
    assert closed.count(OnnxEncoder) == (2 if "the same" in words else 1)
    assert closed.count(Qwen3Encoder) == (1 if "reranker" in changes else 0)


def test_all_are_closed_though_one_fails_to(tmp_path: Path) -> None:
    closed: list[str] = []
    following = ServedModel(Closing("second", closed, fails=True), "fake")
    served = ServedModel(
        Closing("first", closed, fails=True), "fake", reranker=Closing("reranker", closed), next=following
    )
    with pytest.raises(RuntimeError):
        served.close()
    assert sorted(closed) == ["first", "reranker", "second"]


@pytest.mark.parametrize("which", ["encoder", "next_encoder"])
async def test_the_server_is_ready_while_both_work(tmp_path: Path, which: str) -> None:
    async with two_models(tmp_path / "data", probe_seconds=0.05) as stage:

        async def told(status: int) -> None:
            async with asyncio.timeout(20):
                while (await http(stage, "/readyz"))[0] != status:  # noqa: ASYNC110 - told over HTTP
                    await asyncio.sleep(0.01)

        await told(200)
        getattr(stage, which).broken = True
        await told(503)
        getattr(stage, which).broken = False
        await told(200)
        page = (await http(stage, "/metrics"))[1]
        (info,) = (line for line in page.splitlines() if line.startswith("precall_server_info{"))
        assert f'model_fingerprint="{OLD}"' in info and f'next_model_fingerprint="{NEW}"' in info


async def test_clients_get_the_encoder_of_whichever_model_they_name(tmp_path: Path) -> None:
    def exported(name: str) -> ExportedEncoder:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "encoder.onnx").write_bytes(name.encode())
        return ExportedEncoder(folder, (ExportedFile.of(folder / "encoder.onnx"),))

    following = ServedModel(FakeEncoder(NEXT_CARD), "fake", exported("new"), agreement=0.5)
    model = ServedModel(FakeEncoder(), "fake", exported("old"), next=following)
    settings = settings_for(tmp_path / "data")
    async with (
        running_server(settings, lambda _: model) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        key = await admin("AdminService/CreateKey", tenant_id="acme")
        acme = Caller(channel, key.secret)

        async def given(caller: Caller, fingerprint: str = "") -> tuple[str, bytes]:
            manifest, *rest = await caller("EmbeddingService/GetClientEncoder", model_fingerprint=fingerprint)
            return manifest.manifest.model_fingerprint, b"".join(chunk.data for chunk in rest)

        assert await given(acme) == await given(acme, OLD) == await given(admin) == (OLD, b"old")
        assert await given(acme, NEW) == (NEW, b"new")
        failure = await failure_of(given(acme, "another"))
        assert failure.reason == "MODEL_FINGERPRINT_MISMATCH"
        assert OLD in failure.message and NEW in failure.message
        stage = Stage(endpoints, settings, FakeEncoder(), channel, admin)
        await taken(stage, "start", "switch")
        assert await given(acme) == (NEW, b"new")
        assert await given(acme, OLD) == await given(admin) == (OLD, b"old")
