"""A reranker without weights."""

from collections.abc import Mapping, Sequence

import numpy as np

from precall.engine.encoding.encoder import TokenizedText, TokenUsage
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.errors import InvalidInput, TextTooLong
from precall.scoring.query_terms import QueryTerms

WORD_CARD = RerankerCard("word", "1", "0" * 64, 8, "{instruction}{query}{document}", "find")


class WordReranker:
    """The share of a document's words that stand in the query, or in the instruction if there is one.

    ``fault``, if any, is raised by every pass until it is taken back.
    """

    card = WORD_CARD

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def search_share(self, asked: QueryTerms) -> float:
        return 0.5

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        words = document.split()
        asked = (instruction or query).split()
        if not words:
            raise InvalidInput("the document is empty")
        if len(words) > self.card.max_tokens and not truncate:
            raise TextTooLong("the document is too long")
        used = words[: self.card.max_tokens]
        found = np.array([word in asked for word in used], np.int64)
        return TokenizedText(found, TokenUsage(len(words), len(used)))

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        if self.fault is not None:
            raise self.fault
        return RerankedBatch(np.array([pair.token_ids.mean() for pair in pairs], np.float32))

    def close(self) -> None: ...
