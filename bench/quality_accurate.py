"""ACCURATE search as a column of the quality table: FAST's best of each query, judged by a reranker."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from precall.bench.quality_methods import EncodedSet, Scores, keyword_index, score_fast
from precall.engine.encoding.reranker import Reranker
from precall.engine.retrieval.accurate import DEFAULT_CANDIDATES
from precall.scoring.query_terms import QueryTerms

_BELOW: Final = np.float32(2.0)
"""Taken from the score of what the reranker does not read: relevances differ by at most 1."""


@dataclass(frozen=True, slots=True)
class AccurateMethod:
    """Scores as an ACCURATE search of one rung has them; all memories are equally important and equally old.

    Compound queries are searched whole here: no set says what each of their parts is answered by.
    """

    reranker: Reranker
    candidates: int = DEFAULT_CANDIDATES

    def __call__(self, encoded: EncodedSet) -> Scores:
        fast = score_fast(encoded)
        scores = fast - _BELOW
        best = np.argsort(-fast, axis=1, kind="stable")[:, : self.candidates]
        statistics = keyword_index(encoded.labelled).statistics()
        memories = encoded.labelled.memories
        pairs = []
        shares = np.empty((len(best), 1), np.float32)
        for place, (query, rows) in enumerate(zip(encoded.labelled.queries, best, strict=True)):
            terms = QueryTerms.of(query.text).terms
            shares[place] = self.reranker.search_share(len(terms))
            weights = statistics.weights(terms)
            pairs += [
                self.reranker.tokenize(query.text, memories[row], truncate=True, term_weights=weights)
                for row in rows.tolist()
            ]
        # One call: a reranker that reads each text once reads it once for all the queries.
        judged = self.reranker.score(pairs).scores.reshape(best.shape)
        mixed = (1 - shares) * np.take_along_axis(fast, best, axis=1) + shares * judged
        np.put_along_axis(scores, best, mixed, axis=1)
        return scores
