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
from precall.engine.encoding.packing_texts import cut_passes
from precall.engine.encoding.reranker import RerankedBatch, RerankerCard
from precall.engine.encoding.scores import finite_scores
from precall.engine.encoding.token_export import ensure_token_export
from precall.engine.encoding.token_graph import TokenGraph
from precall.engine.errors import ConfigurationError, InvalidInput
from precall.scoring.query_terms import QueryTerms

POSITIONS = 512
"""Tokens that the model has a place for."""

PART_TOKENS = 16_384
"""Of the documents whose vectors are held at a time: 25 MB."""

CARD = RerankerCard(
    name=f"{MINILM_CARD.name} (late interaction)",
    revision=f"{MINILM_CARD.revision} maxsim-2",
    weights_sha256=MINILM_CARD.weights_sha256,
    max_tokens=POSITIONS,
    prompt="{query}[SEP]{document}",
    instruction="",
)
"""``maxsim-2`` stands for the formula above, the weights of words and where a long document is cut; it
changes with them.
"""

SEARCH_SHARE = 0.7
_FEW_TERMS = 3
"""Of the score in an ACCURATE search's relevance, for a query of up to so many keyword terms. It helps where
a query gives the keyword leg little to go by. nDCG@10 of FAST, of this score alone, of both: .589, .574, .604
on the LoCoMo conversations held out; .736, .720, .739 on all of SciFact.

The best of a grid over LoCoMo conversations 26 and 30 and every sixth claim of SciFact among 300 abstracts,
of shares that fall with the terms or with their square. `bench/reranking.py` chose 1 and the root of 2 terms
on the same conversations and 200 of SciFact's training claims: what is held out gains nothing by it (.606;
recall@10 .787 for .801), and SciFact's test claims neither (.739).
"""


class LateInteractionReranker:
    """``Reranker`` over MiniLM's token vectors, on ONNX Runtime. Thread-safe.

    Each distinct query and each distinct document of a call goes through the model once. Documents do so in
    parts, and their vectors go with the part: a call takes little memory however many pairs it has.
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

    def search_share(self, asked: QueryTerms) -> float:
        """Falls with the square of the terms beyond `_FEW_TERMS`, and with the share of terms in scripts that
        the model does not read: of those it can only compare letters.
        """
        falling = min(1.0, _FEW_TERMS / max(len(asked.terms), 1)) ** 2
        return SEARCH_SHARE * falling * (1.0 - asked.share_outside(MINILM_CARD.scripts))

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
        asked = {pair.query_ids.tobytes(): pair.query_ids for pair in own}
        queries = dict(zip(asked, self._graph.token_vectors(list(asked.values())), strict=True))
        rows = _rows_by_document(own)
        documents = [own[alike[0]].document_ids for alike in rows]
        scores = np.empty(len(own), np.float32)
        for part in cut_passes([len(ids) for ids in documents], PART_TOKENS):
            computed = self._graph.token_vectors([documents[number] for number in part])
            for number, vectors in zip(part, computed, strict=True):
                for row in rows[number]:
                    query = queries[own[row].query_ids.tobytes()]
                    scores[row] = _interaction(query, vectors, own[row].query_weights)
        return finite_scores(scores)

    def close(self) -> None:
        """Nothing to do: the session goes with the last reference, after the passes that still run."""


def _own(pair: TokenizedText) -> LateInteractionPair:
    assert isinstance(pair, LateInteractionPair), "a pair is scored by the reranker that tokenized it"
    return pair


def _rows_by_document(pairs: Sequence[LateInteractionPair]) -> list[list[int]]:
    """For each distinct document the rows that have it, the shortest document first: parts of such an order
    have little padding.
    """
    rows: dict[bytes, list[int]] = {}
    for row, pair in enumerate(pairs):
        rows.setdefault(pair.document_ids.tobytes(), []).append(row)
    return sorted(rows.values(), key=lambda alike: len(pairs[alike[0]].document_ids))


def _interaction(
    query: NDArray[np.float32], document: NDArray[np.float32], weights: NDArray[np.float32]
) -> float:
    """NaN if any vector has one: ``max`` and ``clip`` pass it on."""
    best = (query[1:-1] @ document[1:-1].T).max(axis=1)
    # Clipped once more, for rounding may take the sum a last digit over 1.
    return float(np.clip(weights @ np.clip(best, 0.0, 1.0), 0.0, 1.0))
