"""Qwen3-Reranker through torch: the probability that the model says "yes" to a query and a document."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.qwen3_model import Qwen3Model
from precall.engine.encoding.qwen3_pairs import SEARCH_SHARE, Qwen3Pairs
from precall.engine.encoding.qwen3_settings import Qwen3RerankerSettings
from precall.engine.encoding.qwen3_weights import Qwen3Weights
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.encoding.scores import finite_scores
from precall.engine.encoding.torch_attention import PackedTensors, choose_attention
from precall.engine.encoding.torch_device import Placement
from precall.engine.encoding.torch_runner import PackedRunner
from precall.scoring.query_terms import QueryTerms


class Qwen3Reranker:
    """``Reranker`` over Qwen3-Reranker (0.6B, 4B, 8B). Pairs go through the model end to end, unpadded."""

    def __init__(self, settings: Qwen3RerankerSettings | None = None) -> None:
        """Find, digest and load the model; blocks for seconds to minutes.

        Raises ``ModelUnavailable`` (missing, damaged, too large) or ``ConfigurationError`` (a setting that
        the model or the machine cannot meet).
        """
        settings = settings if settings is not None else Qwen3RerankerSettings()
        placement = Placement.choose(settings.device, settings.dtype)
        self._pairs = Qwen3Pairs(settings)
        architecture, answers = self._pairs.architecture, self._pairs.answers
        weights = Qwen3Weights.load(
            self._pairs.files.shards, architecture, placement, answer_tokens=(answers.no, answers.yes)
        )
        assert weights.answers is not None
        self._answers = weights.answers
        self._model = Qwen3Model(architecture, weights, choose_attention(placement))
        self._runner = PackedRunner(self._yes_probabilities, placement, pass_tokens=settings.pass_tokens)

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
        return finite_scores(self._runner.run([pair.token_ids for pair in pairs])[:, 0])

    def close(self) -> None:
        """Nothing to do: the weights go with the last reference, after the passes that still run."""

    def _yes_probabilities(self, batch: PackedTensors) -> Tensor:
        """Softmax over the logits of "no" and "yes", which is a sigmoid of their difference: ``(n, 1)``."""
        logits = torch.nn.functional.linear(self._model.last_hidden(batch), self._answers).to(torch.float32)
        return torch.sigmoid(logits[:, 1:] - logits[:, :1])
