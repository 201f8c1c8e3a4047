"""Qwen3-Reranker through vLLM."""

import secrets
from collections.abc import Mapping, Sequence

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.qwen3_pairs import SEARCH_SHARE, Qwen3Pairs
from precall.engine.encoding.qwen3_prompts import NO_TOKEN, YES_TOKEN
from precall.engine.encoding.qwen3_settings import Qwen3RerankerSettings
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.encoding.scores import finite_scores
from precall.engine.encoding.vllm_arguments import engine_arguments
from precall.engine.encoding.vllm_engine import VllmEngine
from precall.engine.encoding.vllm_library import VllmLibrary
from precall.engine.encoding.vllm_settings import VllmSettings
from precall.scoring.query_terms import QueryTerms


class VllmReranker:
    """``Reranker`` with the card, the tokens and (to 1e-3) the scores of ``Qwen3Reranker``.

    The pairs of one call share the computed keys and values of the prompt and query they have in common;
    those of different calls share nothing, so that the time of a pair tells nothing about other tenants.
    """

    def __init__(
        self, settings: Qwen3RerankerSettings | None = None, vllm_settings: VllmSettings | None = None
    ) -> None:
        """Find, digest and load the model; blocks for a minute or more.

        Raises ``ModelUnavailable`` (vLLM or the model missing, damaged, too large) or ``ConfigurationError``
        (a setting that the model or the machine cannot meet).
        """
        settings = settings if settings is not None else Qwen3RerankerSettings()
        vllm_settings = vllm_settings if vllm_settings is not None else VllmSettings()
        library = VllmLibrary.load(settings.device)
        self._pairs = Qwen3Pairs(settings)
        arguments = engine_arguments(
            library,
            self._pairs.files,
            self._pairs.architecture,
            settings,
            vllm_settings,
            max_tokens=self.card.max_tokens,
            # vLLM folds the two answers' rows of the output matrix into one, whose sigmoid is the softmax.
            hf_overrides={
                "architectures": ["Qwen3ForSequenceClassification"],
                "classifier_from_token": [NO_TOKEN, YES_TOKEN],
                "is_original_qwen3_reranker": True,
            },
            share_prefixes=True,
        )
        self._parameters: dict[str, object] = {"task": "classify", "use_activation": True}
        self._engine = VllmEngine(library, arguments, width=1, pass_seconds=vllm_settings.pass_seconds)

    @property
    def card(self) -> RerankerCard:
        return self._pairs.card

    def search_share(self, asked: QueryTerms) -> float:
        """The same for every query."""
        return SEARCH_SHARE

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        """As ``Qwen3Pairs.tokenize``; ``term_weights`` tell this model nothing that it does not read."""
        return self._pairs.tokenize(query, document, truncate=truncate, instruction=instruction)

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        """As ``Reranker.score``. Raises ``InvalidInput`` (empty batch) or ``ModelUnavailable``."""
        pooled = self._engine.pool(
            [pair.token_ids for pair in pairs], self._parameters, salt=secrets.token_hex(16)
        )
        return finite_scores(pooled.rows[:, 0], pooled.errors)

    def close(self) -> None:
        """End the engine's processes; ``score`` raises ``ModelUnavailable`` from then on."""
        self._engine.close()
