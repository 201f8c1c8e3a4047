"""The models that a server runs, as everything above the engine sees them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from precall.engine.batching.settings import BatchingSettings
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.choice import ModelChoice, ModelFamily, Runtime, has_gpu
from precall.engine.encoding.encoder import Encoder
from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.light_encoder import find_small_model
from precall.engine.encoding.light_settings import LightSettings
from precall.engine.encoding.reranker import Reranker
from precall.engine.errors import ConfigurationError, FingerprintMismatch
from precall.server.settings import ServerSettings

if TYPE_CHECKING:
    from precall.engine.encoding.loading import LoadedEncoder

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
    ``batching``: how the encoder wants its work cut. ``next``: a second encoder, for tenants on their way to
    it or from it; it brings no reranker, and no third one. ``light``: where nothing is exported, how a
    light encoder is made for clients; None: they get none.
    """

    encoder: Encoder
    runtime: str
    exported: ExportedEncoder | None = None
    agreement: float = 1.0
    reranker: Reranker | None = None
    batching: BatchingSettings = field(default_factory=BatchingSettings)
    next: "ServedModel | None" = None
    light: LightSettings | None = None

    @property
    def card(self) -> ModelCard:
        return self.encoder.card

    @property
    def encoders(self) -> Sequence["ServedModel"]:
        """The one that new tenants get first, then the next one if there is one."""
        return (self,) if self.next is None else (self, self.next)

    @property
    def light_settings(self) -> Mapping[str, LightSettings]:
        """By the fingerprint of each encoder that a light one is to be made for."""
        return {each.card.fingerprint: each.light for each in self.encoders if each.light is not None}

    @property
    def facts(self) -> Mapping[str, str]:
        """What runs here, in names and values; of the next one with ``next_`` before each name."""
        card = self.card
        facts = {"model": card.name, "model_fingerprint": card.fingerprint, "runtime": self.runtime}
        return facts if self.next is None else facts | {f"next_{k}": v for k, v in self.next.facts.items()}

    def of(self, fingerprint: str) -> "ServedModel":
        """The one whose space the fingerprint names. Raises FingerprintMismatch."""
        for served in self.encoders:
            if served.card.fingerprint == fingerprint:
                return served
        running = " and ".join(f"{served.card.name} ({served.card.fingerprint})" for served in self.encoders)
        raise FingerprintMismatch(
            f"model {fingerprint} is not loaded: this server runs {running}",
            metadata={"model_fingerprint": self.card.fingerprint},
        )

    def close(self) -> None:
        """Let go of the devices. Nothing may be asked of any model from now on."""
        with ExitStack() as closing:
            for model in (self.next, self.reranker, self.encoder):
                if model is not None:
                    closing.callback(model.close)


def load_model(settings: ServerSettings) -> ServedModel:
    """Load and check the models that the settings name. Blocks: seconds for MiniLM, minutes for a Qwen3.

    Raises ModelUnavailable, NumericsError, ConfigurationError.
    """
    # Imported here: it needs ONNX Runtime and tokenizers, and a server that is given its model does not.
    from precall.engine.encoding.loading import load_encoder, load_reranker

    with ExitStack() as undoing:
        served = _served(load_encoder(_encoder_choice(settings)), settings)
        undoing.callback(served.close)
        if settings.next_model:
            following = _served(load_encoder(_next_encoder_choice(settings)), settings)
            undoing.callback(following.close)
            _require_another(following.card, served.card)
            served = replace(served, next=following)
        if settings.reranker:
            served = replace(served, reranker=load_reranker(_reranker_choice(settings)))
        undoing.pop_all()
    return served


def _served(loaded: "LoadedEncoder[Encoder]", settings: ServerSettings) -> ServedModel:
    is_light_wanted = loaded.exported is None and settings.light_encoder
    return ServedModel(
        loaded.encoder,
        RUNTIME_NAMES[loaded.runtime],
        loaded.exported,
        batching=_batching(loaded.runtime),
        light=LightSettings(partial(find_small_model, settings.cache_dir)) if is_light_wanted else None,
    )


def _require_another(following: ModelCard, first: ModelCard) -> None:
    """Two of one fingerprint are one model: there is nothing to go from and to."""
    if following.fingerprint == first.fingerprint:
        raise ConfigurationError(
            f"next_model and model are the same, {first.name} ({first.fingerprint}): unset next_model, or "
            "choose another model, next_dimension or next_query_task"
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
    return replace(_on_chosen_runtime(choice, settings), query_task=settings.query_task or None)


def _next_encoder_choice(settings: ServerSettings) -> ModelChoice:
    """Its own settings, and of the first one's what it can do."""
    choice = ModelChoice(
        model=settings.next_model,
        dimension=settings.next_dimension or None,
        query_task=settings.next_query_task or None,
        max_tokens=settings.next_max_tokens or None,
        threads=settings.threads,
        cache_dir=settings.cache_dir,
    )
    return _on_chosen_runtime(choice, settings)


def _on_chosen_runtime(choice: ModelChoice, settings: ServerSettings) -> ModelChoice:
    """``runtime`` is chosen for ``model``: another model that it cannot compute has its own."""
    runtime = Runtime(settings.runtime)
    return replace(choice, runtime=runtime if runtime in choice.family.runtimes else Runtime.AUTO)


def _batching(runtime: Runtime) -> BatchingSettings:
    if runtime is Runtime.ONNX:
        return SMALL_ON_PROCESSOR
    return PACKED_ON_GPU if has_gpu() else PACKED_ON_PROCESSOR
