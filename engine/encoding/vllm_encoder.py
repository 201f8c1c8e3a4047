"""Qwen3-Embedding through vLLM: the default on a CUDA machine where vLLM is installed."""

from collections.abc import Sequence

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import EncodedBatch, TextRole, TokenizedText
from precall.engine.encoding.numerics import unit_rows
from precall.engine.encoding.qwen3_settings import Qwen3EncoderSettings
from precall.engine.encoding.qwen3_texts import Qwen3Texts
from precall.engine.encoding.vllm_arguments import engine_arguments
from precall.engine.encoding.vllm_engine import VllmEngine
from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.encoding.vllm_settings import VllmSettings


class VllmEncoder:
    """``Encoder`` with the card, the tokens and (cosine >= 0.9999) the vectors of ``Qwen3Encoder``.

    The engine forms its own passes from what ``encode`` hands it. No text shares computed keys and values
    with another one, so that the time of a text tells nothing about those of other tenants.
    """

    def __init__(
        self, settings: Qwen3EncoderSettings | None = None, vllm_settings: VllmSettings | None = None
    ) -> None:
        """Find, digest and load the model; blocks for a minute or more.

        Raises ``ModelUnavailable`` (vLLM or the model missing, damaged, too large) or ``ConfigurationError``
        (a setting that the model or the machine cannot meet).
        """
        settings = settings if settings is not None else Qwen3EncoderSettings()
        vllm_settings = vllm_settings if vllm_settings is not None else VllmSettings()
        library = VllmLibrary.load(settings.device)
        self._texts = Qwen3Texts(settings)
        arguments = engine_arguments(
            library,
            self._texts.files,
            self._texts.architecture,
            settings,
            vllm_settings,
            max_tokens=self.card.max_tokens,
            hf_overrides={"is_matryoshka": True},
            share_prefixes=False,
        )
        # Cut first, then normalised: "activation" is vLLM's word for the latter.
        self._parameters: dict[str, object] = {
            "task": "embed",
            "dimensions": self.card.dimension,
            "use_activation": True,
        }
        self._engine = VllmEngine(
            library, arguments, width=self.card.dimension, pass_seconds=vllm_settings.pass_seconds
        )

    @property
    def card(self) -> ModelCard:
        return self._texts.card

    def tokenize(
        self, text: str, role: TextRole, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """As ``Qwen3Texts.tokenize``."""
        return self._texts.tokenize(text, role, truncate=truncate, instruction=instruction)

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        """As ``Encoder.encode``. Raises ``InvalidInput`` (empty batch) or ``ModelUnavailable``."""
        pooled = self._engine.pool([text.token_ids for text in texts], self._parameters)
        return unit_rows(pooled.rows, pooled.errors)

    def close(self) -> None:
        """End the engine's processes; ``encode`` raises ``ModelUnavailable`` from then on."""
        self._engine.close()
