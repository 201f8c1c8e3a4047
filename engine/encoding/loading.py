"""From a choice to a model that is loaded and proven, in one call."""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from precall.engine.encoding.choice import ModelChoice, ModelFamily, Runtime, prepare_torch
from precall.engine.encoding.encoder import Encoder
from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.guard import NumericsGuard, RerankerGuard
from precall.engine.encoding.minilm import CARD, GOLDEN_PAIRS, find_minilm
from precall.engine.encoding.onnx_encoder import OnnxEncoder
from precall.engine.encoding.onnx_export import ensure_exported
from precall.engine.encoding.qwen3_prompts import WEB_SEARCH_INSTRUCTION
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings, Qwen3RerankerSettings
from precall.engine.encoding.reranker import Reranker
from precall.engine.errors import ConfigurationError

EncoderT_co = TypeVar("EncoderT_co", bound=Encoder, covariant=True)


@dataclass(frozen=True)
class LoadedEncoder(Generic[EncoderT_co]):
    """A checked encoder, its guard for later probes, and the files that clients may fetch, if any."""

    encoder: EncoderT_co
    guard: NumericsGuard
    runtime: Runtime
    exported: ExportedEncoder | None = None


def load_default_encoder(
    cache_dir: Path | None = None, model_path: Path | None = None, threads: int | None = None
) -> LoadedEncoder[OnnxEncoder]:
    """MiniLM on ONNX Runtime, its weights, export and numerics checked. Blocks: some seconds the first time.

    ``cache_dir`` holds the export (default: the user's cache), ``model_path`` a folder with the model's files
    (default: the installed package), ``threads`` those of one forward pass (default: the processors, up to
    4). Raises ``ModelUnavailable``, ``NumericsError`` or ``ConfigurationError``; each says what to change.
    """
    exported = ensure_exported(find_minilm(model_path), CARD, cache_dir)
    encoder = OnnxEncoder(exported, CARD, threads=threads)
    guard = NumericsGuard(encoder, GOLDEN_PAIRS)
    guard.check()
    return LoadedEncoder(encoder, guard, Runtime.ONNX, exported)


def load_encoder(choice: ModelChoice) -> LoadedEncoder[Encoder]:
    """The chosen embedding model, checked. Blocks: seconds for MiniLM, up to minutes for a Qwen3.

    A Qwen3 has no golden pairs, for its sizes and cuts differ: it is held to batch = single = repeat. Raises
    ``ModelUnavailable``, ``NumericsError`` or ``ConfigurationError``; each says what to change.
    """
    runtime = choice.chosen_runtime
    if choice.family is ModelFamily.MINILM:
        _require_minilm_as_it_is(choice)
        return load_default_encoder(choice.cache_dir, choice.folder, choice.threads)
    encoder = _qwen3_encoder(choice, runtime)
    guard = NumericsGuard(encoder)
    try:
        guard.check()
    except BaseException:
        encoder.close()
        raise
    return LoadedEncoder(encoder, guard, runtime)


def load_reranker(choice: ModelChoice) -> Reranker:
    """The chosen reranker, checked: batch = single = repeat. Blocks, and raises, as ``load_encoder`` does.

    ``minilm`` is the late interaction on the small model, with ``max_tokens`` at most 512.
    """
    runtime = choice.chosen_runtime
    if choice.family is ModelFamily.MINILM:
        reranker = _late_interaction_reranker(choice)
    else:
        reranker = _qwen3_reranker(choice, runtime)
    try:
        RerankerGuard(reranker).check()
    except BaseException:
        reranker.close()
        raise
    return reranker


def _require_minilm_as_it_is(choice: ModelChoice) -> None:
    for name in ("dimension", "query_task", "max_tokens"):
        if getattr(choice, name) is not None:
            raise ConfigurationError(
                f"{name} cannot be set for {CARD.name}, which has {CARD.dimension} dimensions, takes "
                f"{CARD.max_tokens} tokens and no task: leave it unset, or choose a Qwen3-Embedding model"
            )


def _late_interaction_reranker(choice: ModelChoice) -> Reranker:
    for name in ("dimension", "query_task"):
        if getattr(choice, name) is not None:
            raise ConfigurationError(
                f"{name} cannot be set for the reranker {choice.model}: leave it unset, or choose a "
                "Qwen3-Reranker model"
            )
    from precall.engine.encoding.late_interaction import LateInteractionReranker

    return LateInteractionReranker(
        choice.cache_dir, choice.folder, max_tokens=choice.max_tokens, threads=choice.threads
    )


def _qwen3_encoder(choice: ModelChoice, runtime: Runtime) -> Encoder:
    settings = Qwen3EncoderSettings(
        model=_model_of(choice),
        max_tokens=choice.max_tokens,
        dimension=choice.dimension,
        instruction=_instruction_of(choice),
    )
    # Each imported where it is chosen: torch takes seconds and vLLM tens of them.
    if runtime is Runtime.VLLM:
        from precall.engine.encoding.vllm_encoder import VllmEncoder

        return VllmEncoder(settings)
    prepare_torch(choice.threads)
    from precall.engine.encoding.qwen3 import Qwen3Encoder

    return Qwen3Encoder(settings)


def _qwen3_reranker(choice: ModelChoice, runtime: Runtime) -> Reranker:
    settings = Qwen3RerankerSettings(
        model=_model_of(choice), max_tokens=choice.max_tokens, instruction=_instruction_of(choice)
    )
    if runtime is Runtime.VLLM:
        from precall.engine.encoding.vllm_reranker import VllmReranker

        return VllmReranker(settings)
    prepare_torch(choice.threads)
    from precall.engine.encoding.qwen3_reranker import Qwen3Reranker

    return Qwen3Reranker(settings)


def _model_of(choice: ModelChoice) -> str | Path:
    return choice.folder if choice.folder is not None else choice.model


def _instruction_of(choice: ModelChoice) -> str:
    return choice.query_task if choice.query_task is not None else WEB_SEARCH_INSTRUCTION
