"""The scores of many searches' pairs, made by a reranker in one call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.encoding.reranker import RerankedBatch, Reranker, RerankerCard
from precall.engine.errors import PrecallError
from precall.scoring.query_terms import QueryTerms


@dataclass(frozen=True, slots=True)
class _NumberedPair(TokenizedText):
    """``number``: the pair's place in the ledger."""

    number: int


class PairLedger:
    """A reranker that notes the pairs of searches, and answers them when it is asked again.

    An abstract stands among the candidates of several claims, and a small reranker computes each text of a
    call once: so a set of long texts takes a fraction of the time that its searches would take one by one.
    Until `settle` every score is 0; then the searches are to be repeated, and get the reranker's own scores.
    For one corpus: the terms of one query weigh the same in all of its pairs.
    """

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self._pairs: list[TokenizedText] = []
        self._numbered: dict[tuple[str, str], _NumberedPair] = {}
        self._settled: RerankedBatch | None = None

    @property
    def card(self) -> RerankerCard:
        return self._reranker.card

    def search_share(self, asked: QueryTerms) -> float:
        return self._reranker.search_share(asked)

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        """As ``Reranker.tokenize``, of each pair once."""
        numbered = self._numbered.get((query, document))
        if numbered is None:
            pair = self._reranker.tokenize(
                query, document, truncate=truncate, instruction=instruction, term_weights=term_weights
            )
            numbered = _NumberedPair(pair.token_ids, pair.usage, len(self._pairs))
            self._pairs.append(pair)
            self._numbered[query, document] = numbered
        return numbered

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        """Raises IndexError for a pair that came after `settle`."""
        if self._settled is None:
            return RerankedBatch(np.zeros(len(pairs), np.float32))
        numbers = [_own(pair).number for pair in pairs]
        errors: dict[int, PrecallError] = {
            row: self._settled.errors[number]
            for row, number in enumerate(numbers)
            if number in self._settled.errors
        }
        return RerankedBatch(self._settled.scores[numbers], errors)

    def settle(self) -> None:
        """Score what was noted, in one call. Raises what the reranker does."""
        self._settled = self._reranker.score(self._pairs)

    def close(self) -> None:
        """Nothing to do: the reranker is its owner's."""


def _own(pair: TokenizedText) -> _NumberedPair:
    assert isinstance(pair, _NumberedPair), "a pair is scored by the ledger that tokenized it"
    return pair
