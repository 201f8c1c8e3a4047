"""What the tests share that run a real vLLM: models, and engines of both kinds on the same files.

Needs vLLM: `make test-vllm` sets up an environment with its build for processors. Elsewhere these tests are
skipped, and those on a fake vLLM run.
"""

import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.encoding.qwen3_reranker import Qwen3Reranker
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings, Qwen3RerankerSettings
from precall.engine.encoding.vllm_encoder import VllmEncoder
from precall.engine.encoding.vllm_reranker import VllmReranker
from tests.fakes.tiny_qwen3 import TinyQwen3

POISON = "<|fim_pad|>"
"""A token of both models' vocabulary whose embedding is NaN."""

LIMIT = 500
PASS_TOKENS = 192
"""Less than ``LIMIT``: a long input is computed in pieces."""


@dataclass(frozen=True)
class EncoderPair:
    """The same files and settings under both engines, and what starting vLLM wrote to standard output."""

    vllm: VllmEncoder
    torch: Qwen3Encoder
    written: Path


@dataclass(frozen=True)
class RerankerPair:
    vllm: VllmReranker
    torch: Qwen3Reranker
    folder: Path


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncoderPair]:
    folder = poisoned(TinyQwen3().save(tmp_path_factory.mktemp("encoder") / "tiny"))
    # As published: tensors without a prefix under the name of the language model.
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3ForCausalLM"]}))
    settings = Qwen3EncoderSettings(
        model=folder, device="cpu", dtype="float32", max_tokens=LIMIT, pass_tokens=PASS_TOKENS, dimension=48
    )
    written = folder / "standard_output"
    with standard_output_to(written):
        encoder = VllmEncoder(settings)
    yield EncoderPair(encoder, Qwen3Encoder(settings), written)
    encoder.close()


@pytest.fixture(scope="module")
def rerankers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RerankerPair]:
    model = TinyQwen3(seed=1, closing=False, language_model=True)
    folder = poisoned(model.save(tmp_path_factory.mktemp("reranker") / "tiny"))
    settings = Qwen3RerankerSettings(
        model=folder, device="cpu", dtype="float32", max_tokens=LIMIT, pass_tokens=PASS_TOKENS
    )
    reranker = VllmReranker(settings)
    yield RerankerPair(reranker, Qwen3Reranker(settings), folder)
    reranker.close()


def skip_module_without_vllm() -> None:
    spec = importlib.util.find_spec("vllm")
    # The server's tests put this folder's parent on the path, where its name would pass for an empty package.
    if spec is None or spec.origin is None:
        pytest.skip(
            "needs vLLM, which has an environment of its own: run `make test-vllm`", allow_module_level=True
        )


def poisoned(folder: Path) -> Path:
    """Make every state that has seen ``POISON`` NaN."""
    from safetensors.torch import load_file, save_file
    from tokenizers import Tokenizer

    token = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(POISON)
    weights = load_file(folder / "model.safetensors")
    (embedding,) = (tensor for name, tensor in weights.items() if name.endswith("embed_tokens.weight"))
    embedding[token] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@contextmanager
def standard_output_to(path: Path) -> Iterator[None]:
    """For this process and for those that it starts meanwhile, who keep it."""
    kept = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
