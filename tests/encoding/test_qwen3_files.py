"""Finding a model, telling which one it is, and refusing what is missing or damaged."""

import hashlib
import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import DIGESTS_NAME, find_qwen3
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings
from precall.engine.encoding.qwen3_weights import Qwen3Weights
from precall.engine.encoding.torch_device import Placement
from precall.engine.errors import ModelUnavailable
from tests.fakes.tiny_qwen3 import TinyQwen3


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyQwen3().save(tmp_path_factory.mktemp("tiny-qwen3"))


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model", ignore=shutil.ignore_patterns(DIGESTS_NAME)))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def settings(folder: Path | str, **changes) -> Qwen3EncoderSettings:
    return Qwen3EncoderSettings(model=folder, device="cpu", **changes)


def load_weights(folder: Path) -> Qwen3Weights:
    files = find_qwen3(settings(folder))
    return Qwen3Weights.load(
        files.shards, Qwen3Architecture.read(files.config), Placement.choose("cpu", "float32")
    )


def rewrite_config(folder: Path, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_model_that_is_nowhere_is_one_clear_line(no_network, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"hf download Qwen/Qwen3-Embedding-0\.6B") as error:
        Qwen3Encoder()
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    "name", ["/no/such/folder", "./no-such-folder", "no/such/folder", "no such/model name"]
)
def test_a_folder_that_does_not_exist(no_network, name):
    with pytest.raises(ModelUnavailable, match=r"there is no folder|is not on this machine"):
        find_qwen3(settings(name))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelUnavailable, match=name):
        Qwen3Encoder(settings(folder))


def test_the_hub_cache_and_a_copy_of_it_are_the_same_model(no_network, monkeypatch, folder, tmp_path):
    commit = "c" * 40
    repository = tmp_path / "hub" / "models--Qwen--Qwen3-Embedding-0.6B"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(folder, repository / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = Qwen3Encoder(settings("Qwen/Qwen3-Embedding-0.6B"))
    copied = Qwen3Encoder(settings(folder, name="Qwen/Qwen3-Embedding-0.6B"))
    assert cached.card.name == "Qwen/Qwen3-Embedding-0.6B"
    assert cached.card.fingerprint == copied.card.fingerprint
    assert Qwen3Encoder(settings(folder)).card.name == "model"


def test_the_digest_of_one_file_is_its_sha256_and_is_remembered(folder, monkeypatch):
    expected = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert find_qwen3(settings(folder)).weights_sha256 == expected
    monkeypatch.setattr("hashlib.file_digest", None)
    assert find_qwen3(settings(folder)).weights_sha256 == expected


def test_changed_weights_have_another_digest(folder):
    before = find_qwen3(settings(folder)).weights_sha256
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    os.utime(weights, ns=(0, 1))
    assert find_qwen3(settings(folder)).weights_sha256 != before


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"model.safetensors": 3}'])
def test_damaged_digests_are_made_anew(folder, damage):
    before = find_qwen3(settings(folder)).weights_sha256
    (folder / DIGESTS_NAME).write_text(damage)
    assert find_qwen3(settings(folder)).weights_sha256 == before


def test_a_folder_that_cannot_be_written_is_used_all_the_same(folder, monkeypatch):
    def refuse(**_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert find_qwen3(settings(folder)).weights_sha256
    assert not (folder / DIGESTS_NAME).exists()


def test_other_weights_than_asked_for_are_refused(folder):
    digest = find_qwen3(settings(folder)).weights_sha256
    assert find_qwen3(settings(folder, weights_sha256=digest.upper())).weights_sha256 == digest
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        find_qwen3(settings(folder, weights_sha256="0" * 64))


def test_shards_are_the_same_model_in_several_files(saved, tmp_path):
    import torch

    whole = load_weights(saved)
    folder = TinyQwen3(shards=True).save(tmp_path / "sharded")
    files = find_qwen3(settings(folder))
    lines = "".join(
        f"{hashlib.sha256(shard.read_bytes()).hexdigest()}  {shard.name}\n" for shard in files.shards
    )
    assert len(files.shards) > 1
    assert files.weights_sha256 == hashlib.sha256(lines.encode()).hexdigest()
    cut = load_weights(folder)
    assert torch.equal(cut.embedding, whole.embedding)
    assert torch.equal(cut.layers[-1].gate_up, whole.layers[-1].gate_up)
    files.shards[-1].unlink()
    with pytest.raises(ModelUnavailable, match="has no model-"):
        find_qwen3(settings(folder))


@pytest.mark.parametrize("keep", [0, 4, 1_000, 1_000_000])
def test_weights_that_were_cut_short(folder, keep):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ModelUnavailable, match="damaged or cut short"):
        load_weights(folder)


def test_weights_of_another_shape_or_depth(folder):
    rewrite_config(folder, intermediate_size=96)
    with pytest.raises(ModelUnavailable, match="has shape"):
        load_weights(folder)
    rewrite_config(folder, intermediate_size=160, num_hidden_layers=3)
    with pytest.raises(ModelUnavailable, match=r"have no layers\.2"):
        load_weights(folder)


def test_a_tokenizer_of_another_model(folder):
    rewrite_config(folder, vocab_size=32_000)
    with pytest.raises(ModelUnavailable, match="belongs to another model"):
        Qwen3Encoder(settings(folder))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json cannot be loaded"):
        Qwen3Encoder(settings(folder))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "bert"}, "model_type"),
        ({"attention_bias": True}, "attention_bias"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "yarn"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "linear"),
        ({"hidden_size": "wide"}, "not the configuration"),
        ({"rope_parameters": None}, "rope_theta"),
    ],
)
def test_a_model_of_another_kind_is_refused(folder, changes, says):
    rewrite_config(folder, **changes)
    with pytest.raises(ModelUnavailable, match=says):
        Qwen3Architecture.read(folder / "config.json")


@pytest.mark.parametrize("content", ["", "[]", "null"])
def test_a_broken_configuration(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelUnavailable, match="not the configuration"):
        Qwen3Architecture.read(folder / "config.json")


def test_the_rotary_base_of_older_files(folder):
    rewrite_config(folder, rope_parameters=None, rope_scaling=None, rope_theta=1_000_000)
    assert Qwen3Architecture.read(folder / "config.json").rotary_base == 1e6
