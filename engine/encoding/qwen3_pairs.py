"""Pairs as Qwen3-Reranker reads them, for whichever engine runs the model. Loads no torch."""

from dataclasses import dataclass

import numpy as np

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_files import find_qwen3
from precall.engine.encoding.qwen3_prompts import NO_TOKEN, RERANKER_PREFIX, RERANKER_SUFFIX, YES_TOKEN, asked
from precall.engine.encoding.qwen3_settings import Qwen3RerankerSettings
from precall.engine.encoding.qwen3_texts import token_limit
from precall.engine.encoding.qwen3_tokenizer import Qwen3Tokenizer
from precall.engine.encoding.reranker import RerankerCard
from precall.engine.errors import ConfigurationError, InvalidInput, TextTooLong

SEARCH_SHARE = 1.0
"""Of a score in an ACCURATE search's relevance. Chosen and not fitted, for the weights were not to be had: a
model that was trained to judge pairs has read everything that the search's own legs have counted.
"""


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """Ids of the tokens whose probabilities are compared."""

    no: int
    yes: int


class Qwen3Pairs:
    """A model's files, its card and its tokenizer: all of a reranker but the forward pass. Thread-safe."""

    def __init__(self, settings: Qwen3RerankerSettings) -> None:
        """Find and digest the model's files; the weights are not loaded.

        Raises ``ModelUnavailable`` (missing, damaged) or ``ConfigurationError`` (a length that the model does
        not have, or that the prompt alone would fill).
        """
        self.files = find_qwen3(settings)
        self.architecture = Qwen3Architecture.read(self.files.config)
        self.card = RerankerCard(
            name=self.files.name,
            revision=self.files.revision,
            weights_sha256=self.files.weights_sha256,
            max_tokens=token_limit(self.architecture, settings.max_tokens),
            prompt=RERANKER_PREFIX + asked("{instruction}", "{query}") + "{document}" + RERANKER_SUFFIX,
            instruction=settings.instruction,
        )
        template = Qwen3Tokenizer(self.files.tokenizer, self.architecture)
        self.answers = AnswerTokens(no=template.token(NO_TOKEN), yes=template.token(YES_TOKEN))
        self._prefix, self._suffix = template.ids(RERANKER_PREFIX), template.ids(RERANKER_SUFFIX)
        prompt_tokens = self._frame_tokens + len(template.ids(asked(settings.instruction, "")))
        if prompt_tokens >= self.card.max_tokens:
            raise ConfigurationError(
                f"model max_tokens {self.card.max_tokens} has no room for the reranker's prompt of "
                f"{prompt_tokens} tokens"
            )
        # No document may end its turn and answer in the model's place.
        self._tokenizer = Qwen3Tokenizer(self.files.tokenizer, self.architecture, reads_special=False)

    def tokenize(
        self, query: str, document: str, *, truncate: bool, instruction: str | None = None
    ) -> TokenizedText:
        """As ``Reranker.tokenize``. Special tokens in the caller's texts count as text."""
        if not query.strip() or not document.strip():
            raise InvalidInput("the query or the document is empty or only white space: leave it out")
        task = instruction if instruction is not None else self.card.instruction
        question = asked(task, query)
        body = self._tokenizer.ids(question + document)
        given, limit = self._frame_tokens + len(body), self.card.max_tokens
        room = limit - self._frame_tokens
        if given > limit:
            metadata = {"tokens": str(given), "limit": str(limit)}
            if not truncate:
                raise TextTooLong(
                    f"query and document have {given} tokens with their prompt and {self.card.name} takes "
                    f"{limit}: shorten the document, or allow truncation",
                    metadata=metadata,
                )
            if len(self._tokenizer.ids(question)) >= room:
                raise TextTooLong(
                    f"the query alone leaves no room for a document within the {limit} tokens of "
                    f"{self.card.name}: shorten the query",
                    metadata=metadata,
                )
        token_ids = [*self._prefix, *body[:room], *self._suffix]
        return TokenizedText(np.array(token_ids, dtype=np.int64), TokenUsage(given, len(token_ids)))

    @property
    def _frame_tokens(self) -> int:
        return len(self._prefix) + len(self._suffix)
