import sys
from pathlib import Path

import pytest

from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import Qwen3Files
from precall.engine.encoding.qwen3_settings import Qwen3Settings
from precall.engine.encoding.vllm_arguments import engine_arguments
from precall.engine.encoding.vllm_encoder import VllmEncoder
from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.encoding.vllm_reranker import VllmReranker
from precall.engine.encoding.vllm_settings import VllmSettings
from precall.engine.errors import ConfigurationError, ModelUnavailable
from tests.vllm.fake_vllm import FakeVllm

SMALL = Qwen3Architecture(
    vocabulary=151_936,
    hidden=1024,
    intermediate=3072,
    layers=28,
    query_heads=16,
    key_heads=8,
    head=128,
    norm_epsilon=1e-6,
    rotary_base=1e6,
    max_positions=32_768,
    tied_embedding=True,
)
"""The shape of Qwen3-Embedding-0.6B."""


def arguments_of(settings: Qwen3Settings, vllm_settings: VllmSettings, *, on_gpu: bool) -> dict[str, object]:
    return engine_arguments(
        VllmLibrary(FakeVllm().library().module, on_gpu),
        Qwen3Files(Path("folder"), "name", "revision", "0" * 64, (Path("folder/model.safetensors"),)),
        SMALL,
        settings,
        vllm_settings,
        max_tokens=32_768,
        hf_overrides={},
        share_prefixes=False,
    )


@pytest.mark.parametrize("kind", [VllmEncoder, VllmReranker])
def test_without_vllm_the_error_names_the_extra(
    kind: type[VllmEncoder] | type[VllmReranker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ModelUnavailable, match=r"precall\[gpu\]"):
        kind()


def test_on_a_gpu_the_engine_takes_its_cache_and_leaves_the_rest() -> None:
    arguments = arguments_of(Qwen3Settings(model="m"), VllmSettings(), on_gpu=True)
    bytes_a_token = 2 * 28 * 8 * 128 * 2
    assert arguments["kv_cache_memory_bytes"] == bytes_a_token * (32_768 + 16_384)
    assert arguments["dtype"] == "bfloat16" and arguments["enforce_eager"] is False
    assert "block_size" not in arguments


def test_settings_reach_the_engine() -> None:
    settings = Qwen3Settings(model="m", dtype="float16", pass_tokens=512)
    arguments = arguments_of(settings, VllmSettings(cache_tokens=40_000, eager=True), on_gpu=True)
    assert arguments["kv_cache_memory_bytes"] == 2 * 28 * 8 * 128 * 2 * 40_000
    assert arguments["max_num_batched_tokens"] == 512 and arguments["max_num_seqs"] == 512
    assert arguments["dtype"] == "float16" and arguments["enforce_eager"] is True


def test_on_a_processor_it_is_float32_and_not_compiled() -> None:
    arguments = arguments_of(Qwen3Settings(model="m"), VllmSettings(), on_gpu=False)
    assert arguments["dtype"] == "float32" and arguments["enforce_eager"] is True


def test_a_cache_that_cannot_hold_the_longest_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"cache_tokens.*32768"):
        arguments_of(Qwen3Settings(model="m"), VllmSettings(cache_tokens=1_000), on_gpu=True)


@pytest.mark.parametrize(
    "wrong", [{"cache_tokens": 0}, {"pass_seconds": 0.0}, {"pass_seconds": float("nan")}]
)
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        VllmSettings(**wrong)  # type: ignore[arg-type]
