import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from precall.engine.batching.batcher import Batcher
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.choice import ModelChoice, ModelFamily, Runtime
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.guard import NumericsGuard
from precall.engine.encoding.loading import (
    LoadedEncoder,
    load_default_encoder,
    load_encoder,
    load_reranker,
)
from precall.engine.encoding.qwen3 import Qwen3Encoder
from precall.engine.errors import ConfigurationError, ModelUnavailable, NumericsError
from tests.fakes.tiny_qwen3 import TinyQwen3


async def test_the_default_encoder_behind_the_batcher_gives_the_vectors_it_gives_alone(
    loaded: LoadedEncoder,
) -> None:
    encoder = loaded.encoder
    texts = [f"{number} " + "the kettle is on " * number for number in (1, 30, 4, 12, 2)]
    alone = [
        encoder.encode([encoder.tokenize(text, TextRole.DOCUMENT, truncate=False)]).vectors[0]
        for text in texts
    ]
    batcher = Batcher(encoder)
    await batcher.start()
    outcomes = await batcher.embed(
        [*texts, "word " * 255], TextRole.DOCUMENT, tenant="acme", work_class=WorkClass.INGEST
    )
    await batcher.close()
    for vector, outcome in zip(alone, outcomes, strict=False):
        assert float(vector @ outcome.require_vector()) >= 0.9999
    assert outcomes[-1].error is not None
    assert outcomes[-1].error.reason == "TEXT_TOO_LONG"


def test_the_model_path_is_what_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="model_path"):
        load_default_encoder(model_path=tmp_path)


def test_a_wrong_number_of_threads_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        load_default_encoder(threads=0)


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyQwen3().save(tmp_path_factory.mktemp("tiny-qwen3-embedding"))


@pytest.fixture(scope="module")
def qwen3_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyQwen3(closing=False, language_model=True).save(tmp_path_factory.mktemp("tiny-qwen3-reranker"))


def folder_of(path: Path, kind: str) -> str:
    """A folder that claims to hold a model of this type."""
    path.mkdir()
    (path / "config.json").write_text(f'{{"model_type": "{kind}"}}')
    return str(path)


def test_a_folder_is_known_by_its_config(tmp_path: Path) -> None:
    assert ModelChoice(folder_of(tmp_path / "a", "qwen3")).family is ModelFamily.QWEN3
    assert ModelChoice(folder_of(tmp_path / "b", "bert")).family is ModelFamily.MINILM
    with pytest.raises(ModelUnavailable, match="'t5'"):
        _ = ModelChoice(folder_of(tmp_path / "c", "t5")).family
    with pytest.raises(ModelUnavailable, match=r"config\.json cannot be read"):
        _ = ModelChoice(str(tmp_path)).family
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelUnavailable, match="damaged"):
        _ = ModelChoice(str(tmp_path)).family


def test_a_name_is_minilm_or_of_the_hub() -> None:
    assert ModelChoice().family is ModelFamily.MINILM
    assert ModelChoice("sentence-transformers/all-MiniLM-L6-v2").family is ModelFamily.MINILM
    assert ModelChoice("Qwen/Qwen3-Embedding-8B").family is ModelFamily.QWEN3


@pytest.mark.parametrize("name", ["minilmm", "./absent", "/absent/folder", "a/b/c"])
def test_what_names_no_model_is_told_what_would(name: str) -> None:
    with pytest.raises(ConfigurationError, match="Qwen/Qwen3-Embedding"):
        load_encoder(ModelChoice(name))


def test_a_model_that_is_not_on_this_machine_is_told_how_to_bring_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelUnavailable, match="hf download nobody/nothing"):
        load_encoder(ModelChoice("nobody/nothing", Runtime.TORCH))


@pytest.mark.parametrize(
    ("gpu", "vllm", "chosen"),
    [(True, True, Runtime.VLLM), (True, False, Runtime.TORCH), (False, True, Runtime.TORCH)],
)
def test_auto_takes_vllm_on_a_gpu_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, vllm: bool, chosen: Runtime
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    spec = ModuleSpec("vllm", None, origin="vllm/__init__.py" if vllm else None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert ModelChoice("Qwen/Qwen3-Embedding-0.6B").chosen_runtime is chosen
    assert ModelChoice().chosen_runtime is Runtime.ONNX


def test_a_runtime_that_does_not_run_the_model_is_refused() -> None:
    for runtime in (Runtime.TORCH, Runtime.VLLM):
        with pytest.raises(ConfigurationError, match="auto or onnx"):
            load_encoder(ModelChoice(runtime=runtime))
    with pytest.raises(ConfigurationError, match="auto or torch or vllm"):
        load_encoder(ModelChoice("Qwen/Qwen3-Embedding-0.6B", Runtime.ONNX))


@pytest.mark.parametrize("changes", [{"dimension": 64}, {"query_task": "find"}, {"max_tokens": 128}])
def test_minilm_refuses_what_it_cannot_do(changes) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(changes))):
        load_encoder(ModelChoice(**changes))


def test_a_qwen3_is_loaded_as_it_was_chosen(qwen3: Path) -> None:
    choice = ModelChoice(str(qwen3), Runtime.TORCH, dimension=32, query_task="Find it", max_tokens=100)
    loaded = load_encoder(choice)
    card = loaded.encoder.card
    assert (loaded.runtime, loaded.exported) == (Runtime.TORCH, None)
    assert (card.dimension, card.max_tokens) == (32, 100)
    assert card.query_prompt == "Instruct: Find it\nQuery:{text}"
    loaded.guard.probe()


def test_the_threads_of_torch_are_those_that_were_chosen(qwen3: Path) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        load_encoder(ModelChoice(str(qwen3), Runtime.TORCH, max_tokens=40, threads=1))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_reranker_is_loaded_and_something_else_is_refused(qwen3_reranker: Path, tmp_path: Path) -> None:
    reranker = load_reranker(ModelChoice(str(qwen3_reranker), max_tokens=300, query_task="Judge"))
    assert (reranker.card.max_tokens, reranker.card.instruction) == (300, "Judge")
    with pytest.raises(ModelUnavailable, match="'t5'"):
        load_reranker(ModelChoice(folder_of(tmp_path / "other", "t5")))


def test_a_model_that_fails_its_check_is_closed(qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def fail(self: NumericsGuard) -> None:
        raise NumericsError("wrong")

    monkeypatch.setattr(NumericsGuard, "check", fail)
    monkeypatch.setattr(Qwen3Encoder, "close", lambda self: closed.append(self))
    with pytest.raises(NumericsError):
        load_encoder(ModelChoice(str(qwen3), Runtime.TORCH))
    assert len(closed) == 1


def test_choosing_a_model_loads_no_torch(qwen3: Path) -> None:
    program = (
        "import sys; from precall.engine.encoding import loading; "
        "from precall.engine.encoding.choice import ModelChoice, Runtime; "
        f"assert ModelChoice({str(qwen3)!r}, Runtime.VLLM).chosen_runtime is Runtime.VLLM; "
        "print([name for name in ('torch', 'transformers', 'vllm', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
