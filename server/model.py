"""The models that a server runs, as everything above the engine sees them."""

from dataclasses import dataclass, field, replace
from typing import Final

from precall.engine.batching.settings import BatchingSettings
from precall.engine.encoding.choice import ModelChoice, ModelFamily, Runtime, has_gpu
from precall.engine.encoding.encoder import Encoder
from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.reranker import Reranker
from precall.server.settings import ServerSettings

RUNTIME_NAMES: Final = {Runtime.ONNX: "onnxruntime", Runtime.TORCH: "torch", Runtime.VLLM: "vllm"}

SMALL_ON_PROCESSOR: Final = BatchingSettings(
    max_batch_tokens=2_048, max_conversation_tokens=256, max_batch_items=128
)
"""Batches may be large: a conversation has a worker of its own and waits for none of them."""

PACKED_ON_PROCESSOR: Final = BatchingSettings(padded=False, probe_seconds=60.0)
"""Small batches still: there, a conversation waits longer for a large one than the batch saves. One text of
32,768 tokens takes tens of seconds, and a probe behind it must not take the model for dead.
"""

PACKED_ON_GPU: Final = BatchingSettings(
    padded=False,
    max_batch_tokens=16_384,
    max_batch_items=1_024,
    max_waiting_tokens=2_000_000,
    look_ahead=1_024,
)
"""A full pass of vLLM's. Not measured yet."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """``exported``: what clients may fetch to embed their own queries, None where there is nothing.

    ``agreement``: mean cosine between the exported encoder's vectors and the server's; 1.0: the same graph.
    ``batching``: how the encoder wants its work cut.
    """

    encoder: Encoder
    runtime: str
    exported: ExportedEncoder | None = None
    agreement: float = 1.0
    reranker: Reranker | None = None
    batching: BatchingSettings = field(default_factory=BatchingSettings)

    def close(self) -> None:
        """Let go of the devices. Nothing may be asked of either model from now on."""
        try:
            self.encoder.close()
        finally:
            if self.reranker is not None:
                self.reranker.close()


def load_model(settings: ServerSettings) -> ServedModel:
    """Load and check the models that the settings name. Blocks: seconds for MiniLM, minutes for a Qwen3.

    Raises ModelUnavailable, NumericsError, ConfigurationError.
    """
    # Imported here: it needs ONNX Runtime and tokenizers, and a server that is given its model does not.
    from precall.engine.encoding.loading import load_encoder, load_reranker

    loaded = load_encoder(_encoder_choice(settings))
    try:
        reranker = load_reranker(_reranker_choice(settings)) if settings.reranker else None
    except BaseException:
        loaded.encoder.close()
        raise
    return ServedModel(
        loaded.encoder,
        RUNTIME_NAMES[loaded.runtime],
        loaded.exported,
        reranker=reranker,
        batching=_batching(loaded.runtime),
    )


def _encoder_choice(settings: ServerSettings) -> ModelChoice:
    return ModelChoice(
        model=settings.model,
        runtime=Runtime(settings.runtime),
        dimension=settings.dimension or None,
        query_task=settings.query_task or None,
        max_tokens=settings.max_tokens or None,
        threads=settings.threads,
        cache_dir=settings.cache_dir,
    )


def _reranker_choice(settings: ServerSettings) -> ModelChoice:
    """Of what the settings say of the encoder, the reranker gets what a model of its family can do."""
    choice = ModelChoice(
        model=settings.reranker,
        max_tokens=settings.reranker_max_tokens or None,
        threads=settings.threads,
        cache_dir=settings.cache_dir,
    )
    if choice.family is not ModelFamily.QWEN3:
        return choice
    runtime = Runtime(settings.runtime)
    if runtime not in choice.family.runtimes:
        runtime = Runtime.AUTO
    return replace(choice, runtime=runtime, query_task=settings.query_task or None)


def _batching(runtime: Runtime) -> BatchingSettings:
    if runtime is Runtime.ONNX:
        return SMALL_ON_PROCESSOR
    return PACKED_ON_GPU if has_gpu() else PACKED_ON_PROCESSOR
