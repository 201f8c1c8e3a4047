"""Qwen3-Reranker through torch: the probability that the model says "yes" to a query and a document."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.qwen3 import token_limit
from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import find_qwen3
from precall.engine.encoding.qwen3_model import Qwen3Model
from precall.engine.encoding.qwen3_settings import Qwen3RerankerSettings
from precall.engine.encoding.qwen3_tokenizer import Qwen3Tokenizer
from precall.engine.encoding.qwen3_weights import Qwen3Weights
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.encoding.torch_attention import PackedTensors, choose_attention
from precall.engine.encoding.torch_device import Placement
from precall.engine.encoding.torch_runner import PackedRunner
from precall.engine.errors import ConfigurationError, InvalidInput, NumericsError, PrecallError, TextTooLong

PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
"""The prompt of the model card; the empty thought makes the next token the answer."""


class Qwen3Reranker:
    """``Reranker`` over Qwen3-Reranker (0.6B, 4B, 8B). Pairs go through the model end to end, unpadded."""

    def __init__(self, settings: Qwen3RerankerSettings | None = None) -> None:
        """Find, digest and load the model; blocks for seconds to minutes.

        Raises ``ModelUnavailable`` (missing, damaged, too large) or ``ConfigurationError`` (a setting that
        the model or the machine cannot meet).
        """
        settings = settings if settings is not None else Qwen3RerankerSettings()
        placement = Placement.choose(settings.device, settings.dtype)
        files = find_qwen3(settings)
        architecture = Qwen3Architecture.read(files.config)
        self._card = RerankerCard(
            name=files.name,
            revision=files.revision,
            weights_sha256=files.weights_sha256,
            max_tokens=token_limit(architecture, settings.max_tokens),
            prompt=PREFIX + asked("{instruction}", "{query}") + "{document}" + SUFFIX,
            instruction=settings.instruction,
        )
        self._tokenizer = Qwen3Tokenizer(files.tokenizer, architecture)
        self._prefix = self._tokenizer.template(PREFIX)
        self._suffix = self._tokenizer.template(SUFFIX)
        if self._frame_tokens >= self._card.max_tokens:
            raise ConfigurationError(
                f"model max_tokens {self._card.max_tokens} has no room for the reranker's prompt of "
                f"{self._frame_tokens} tokens"
            )
        answers = (self._tokenizer.token("no"), self._tokenizer.token("yes"))
        weights = Qwen3Weights.load(files.shards, architecture, placement, answer_tokens=answers)
        assert weights.answers is not None
        self._answers = weights.answers
        self._model = Qwen3Model(architecture, weights, choose_attention(placement))
        self._runner = PackedRunner(self._yes_probabilities, placement, pass_tokens=settings.pass_tokens)

    @property
    def card(self) -> RerankerCard:
        return self._card

    def tokenize(
        self, query: str, document: str, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """As ``Reranker.tokenize``. Special tokens in the caller's texts count as text."""
        if not query.strip() or not document.strip():
            raise InvalidInput("the query or the document is empty or only white space: leave it out")
        task = instruction if instruction is not None else self._card.instruction
        question = asked(task, query)
        body = self._tokenizer.plain(question + document)
        given, limit = self._frame_tokens + len(body), self._card.max_tokens
        room = limit - self._frame_tokens
        if given > limit:
            metadata = {"tokens": str(given), "limit": str(limit)}
            if not truncate:
                raise TextTooLong(
                    f"query and document have {given} tokens with their prompt and {self._card.name} takes "
                    f"{limit}: shorten the document, or allow truncation",
                    metadata=metadata,
                )
            if len(self._tokenizer.plain(question)) >= room:
                raise TextTooLong(
                    f"the query alone leaves no room for a document within the {limit} tokens of "
                    f"{self._card.name}: shorten the query",
                    metadata=metadata,
                )
        token_ids = [*self._prefix, *body[:room], *self._suffix]
        return TokenizedText(np.array(token_ids, dtype=np.int64), TokenUsage(given, len(token_ids)))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        """As ``Reranker.score``. Raises ``InvalidInput`` (empty batch) or ``ModelUnavailable``."""
        scores = self._runner.run([pair.token_ids for pair in pairs])[:, 0]
        failed = np.flatnonzero(~np.isfinite(scores)).tolist()
        errors: dict[int, PrecallError] = {
            row: NumericsError(
                "the model answered a score that is not finite: this pair was not scored; "
                "the others are not touched"
            )
            for row in failed
        }
        scores[failed] = 0.0
        return RerankedBatch(scores, errors)

    def close(self) -> None:
        """Nothing to do: the weights go with the last reference, after the passes that still run."""

    @property
    def _frame_tokens(self) -> int:
        return len(self._prefix) + len(self._suffix)

    def _yes_probabilities(self, batch: PackedTensors) -> Tensor:
        """Softmax over the logits of "no" and "yes", which is a sigmoid of their difference: ``(n, 1)``."""
        logits = torch.nn.functional.linear(self._model.last_hidden(batch), self._answers).to(torch.float32)
        return torch.sigmoid(logits[:, 1:] - logits[:, :1])


def asked(instruction: str, query: str) -> str:
    """The user's turn of the prompt, up to where the document begins."""
    return f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: "
