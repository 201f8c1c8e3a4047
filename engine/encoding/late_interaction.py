"""A reranker for machines without a GPU: each word of the query looks for its like in the document.

Late interaction (Khattab & Zaharia, "ColBERT", 2020) over the token vectors of all-MiniLM-L6-v2, which was
trained for whole texts and not for this:

    score(q, d) = sum over tokens i of q of  w_i * max(0, max over tokens j of d of cos(q_i, d_j))

The vectors are those of the last layer, [CLS] and [SEP] left out; the w_i are those of ``word_weights`` and
their sum is 1, so a score is in [0, 1].
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.late_interaction_pairs import LateInteractionPair, LateInteractionPairs
from precall.engine.encoding.minilm import CARD as MINILM_CARD
from precall.engine.encoding.minilm import find_minilm
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.encoding.scores import finite_scores
from precall.engine.encoding.token_export import ensure_token_export
from precall.engine.encoding.token_graph import TokenGraph
from precall.engine.errors import ConfigurationError, InvalidInput

POSITIONS = 512
"""Tokens that the model has a place for."""

CARD = RerankerCard(
    name=f"{MINILM_CARD.name} (late interaction)",
    revision=f"{MINILM_CARD.revision} maxsim-1",
    weights_sha256=MINILM_CARD.weights_sha256,
    max_tokens=POSITIONS,
    prompt="{query}[SEP]{document}",
    instruction="",
)
"""``maxsim-1`` stands for the formula above and the weights of words; it changes with them."""

SEARCH_SHARE = 0.7
_FEW_TERMS = 3
"""Of the score in an ACCURATE search's relevance, for a query of up to so many keyword terms. It helps where
a query gives the keyword leg little to go by, and harms where long claims are compared with long abstracts:
0.4 for every query takes nDCG@10 on SciFact from .928 to .910.

The best of a grid over LoCoMo conversations 26 and 30 and every sixth claim of SciFact among 300 abstracts,
of shares that fall with the terms or with their square; `bench/reranking.py` shows it beside fixed shares.
"""


class LateInteractionReranker:
    """``Reranker`` over MiniLM's token vectors, on ONNX Runtime. Thread-safe.

    Each distinct query and document of a call goes through the model once.
    """

    def __init__(
        self,
        cache_dir: Path | None = None,
        model_path: Path | None = None,
        *,
        max_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Find, check, export (once, some seconds) and load the model; arguments as ``load_default_encoder``.

        ``max_tokens`` lowers the limit of a pair. Raises ``ModelUnavailable``, ``NumericsError`` (the export
        disagrees with torch) or ``ConfigurationError``.
        """
        limit = POSITIONS if max_tokens is None else min(max_tokens, POSITIONS)
        if limit < 8:
            raise ConfigurationError(f"reranker max_tokens must be at least 8, not {limit}")
        exported = ensure_token_export(find_minilm(model_path), MINILM_CARD, cache_dir)
        self._card = replace(CARD, max_tokens=limit)
        self._pairs = LateInteractionPairs(exported.tokenizer, self._card)
        self._graph = TokenGraph(exported, threads)

    @property
    def card(self) -> RerankerCard:
        return self._card

    def search_share(self, terms: int) -> float:
        """Falls with the square of the terms beyond `_FEW_TERMS`."""
        return SEARCH_SHARE * min(1.0, _FEW_TERMS / max(terms, 1)) ** 2

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> LateInteractionPair:
        """As ``LateInteractionPairs.tokenize``."""
        return self._pairs.tokenize(
            query, document, truncate=truncate, instruction=instruction, term_weights=term_weights
        )

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        """As ``Reranker.score``, of pairs that this class tokenized.

        Raises ``InvalidInput`` (empty batch) or ``ModelUnavailable``.
        """
        if not pairs:
            raise InvalidInput("a batch needs at least one pair")
        own = [_own(pair) for pair in pairs]
        texts = {ids.tobytes(): ids for pair in own for ids in (pair.query_ids, pair.document_ids)}
        computed = self._graph.token_vectors(list(texts.values()))
        vectors = dict(zip(texts, computed, strict=True))
        scores = [
            _interaction(
                vectors[pair.query_ids.tobytes()], vectors[pair.document_ids.tobytes()], pair.query_weights
            )
            for pair in own
        ]
        return finite_scores(np.array(scores, dtype=np.float32))

    def close(self) -> None:
        """Nothing to do: the session goes with the last reference, after the passes that still run."""


def _own(pair: TokenizedText) -> LateInteractionPair:
    assert isinstance(pair, LateInteractionPair), "a pair is scored by the reranker that tokenized it"
    return pair


def _interaction(
    query: NDArray[np.float32], document: NDArray[np.float32], weights: NDArray[np.float32]
) -> float:
    """NaN if any vector has one: ``max`` and ``clip`` pass it on."""
    best = (query[1:-1] @ document[1:-1].T).max(axis=1)
    # Clipped once more, for rounding may take the sum a last digit over 1.
    return float(np.clip(weights @ np.clip(best, 0.0, 1.0), 0.0, 1.0))
