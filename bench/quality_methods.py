"""What precall's FAST search is measured against, and FAST itself, each from one set's texts and vectors."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precall.bench.quality_sets import LabelledSet
from precall.scoring.fusion import Fusion, keyword_share
from precall.scoring.keyword import CONTEXT_SHARES, KeywordIndex, document_impacts
from precall.scoring.query_terms import QueryTerms
from precall.scoring.terms import analyze

BM25_K1: Final = 1.2
BM25_B: Final = 0.75
"""The constants that Lucene and most papers use."""

RRF_CONSTANT: Final = 60
"""Cormack, Clarke & Büttcher, "Reciprocal rank fusion outperforms Condorcet", 2009."""

_WORD: Final = re.compile(r"\w+")

Scores = NDArray[np.float32]
"""A score for each pair, shape (queries, memories)."""


@dataclass(frozen=True, slots=True)
class EncodedSet:
    """A set with its unit vectors, float32, shapes (queries, dimension) and (memories, dimension).

    ``scripts``: those that the encoder reads, as its card has them.
    """

    labelled: LabelledSet
    queries: NDArray[np.float32]
    memories: NDArray[np.float32]
    scripts: tuple[str, ...] = ()


def score_dense(encoded: EncodedSet) -> Scores:
    """The cosine alone."""
    scores: Scores = encoded.queries @ encoded.memories.T
    return scores


def score_bm25(encoded: EncodedSet) -> Scores:
    """BM25 as it is usually taken for a baseline: words in lower case, nothing stemmed, nothing left out.

    Robertson & Zaragoza, 2009, with Lucene's idf, which is never negative.
    """
    documents = [_WORD.findall(text.lower()) for text in encoded.labelled.memories]
    lengths = np.array([len(words) for words in documents], np.float32)
    norms = BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(float(lengths.mean()), 1.0))
    postings: dict[str, tuple[list[int], list[int]]] = {}
    for row, words in enumerate(documents):
        for word, count in Counter(words).items():
            rows, counts = postings.setdefault(word, ([], []))
            rows.append(row)
            counts.append(count)
    scores = np.zeros((len(encoded.labelled.queries), len(documents)), np.float32)
    for query, totals in zip(encoded.labelled.queries, scores, strict=True):
        for word in set(_WORD.findall(query.text.lower())) & postings.keys():
            rows, counts = postings[word]
            occurrences = np.array(counts, np.float32)
            weight = math.log(1 + (len(documents) - len(rows) + 0.5) / (len(rows) + 0.5))
            totals[rows] += weight * occurrences * (BM25_K1 + 1) / (occurrences + norms[rows])
    return scores


def score_rank_fusion(encoded: EncodedSet) -> Scores:
    """Plain reciprocal rank fusion of the two baselines above."""
    ranks = (_ranks(score_bm25(encoded)), _ranks(score_dense(encoded)))
    return sum((1 / (RRF_CONSTANT + rank) for rank in ranks), np.zeros(ranks[0].shape)).astype(np.float32)


def keyword_index(labelled: LabelledSet) -> KeywordIndex:
    """The set's memories as a partition has them; a memory's slot is its row."""
    terms = [analyze(text) for text in labelled.memories]
    index = KeywordIndex()
    for row, own in enumerate(terms):
        index.add(document_impacts(own, [terms[earlier] for earlier in _before(labelled.context, row)]))
    return index


def score_keyword_leg(encoded: EncodedSet) -> Scores:
    """The keyword half of FAST, with what was said just before a memory in its weights."""
    index = keyword_index(encoded.labelled)
    statistics = index.statistics()
    return np.stack(
        [index.scores(statistics.weights(analyze(query.text))) for query in encoded.labelled.queries]
    )


def score_fast(encoded: EncodedSet) -> Scores:
    """The relevance of a FAST search; all memories are equally important and equally old."""
    return fuse(encoded, score_keyword_leg(encoded))


def fuse(encoded: EncodedSet, keyword: Scores) -> Scores:
    """Relevances of the set's cosines and these BM25 scores, as a search has them."""
    relevances = []
    for query, cosines, scores in zip(encoded.labelled.queries, score_dense(encoded), keyword, strict=True):
        asked = QueryTerms.of(query.text)
        fusion = Fusion.of(asked.terms, keyword_share(asked, encoded.scripts))
        relevances.append(fusion.relevance(cosines, fusion.saturate(scores)))
    return np.stack(relevances)


Methods: TypeAlias = Mapping[str, Callable[[EncodedSet], Scores]]

METHODS: Final[Methods] = MappingProxyType(
    {
        "BM25": score_bm25,
        "dense": score_dense,
        "RRF": score_rank_fusion,
        "keyword": score_keyword_leg,
        "FAST": score_fast,
    }
)
"""Column's name -> how it scores, in the order of the table."""


def _before(context: Sequence[int | None], row: int) -> Iterator[int]:
    """The rows of as many memories as count, the latest first."""
    for _ in CONTEXT_SHARES:
        earlier = context[row]
        if earlier is None:
            return
        yield earlier
        row = earlier


def _ranks(scores: Scores) -> NDArray[np.int64]:
    """The place of each memory, counted from 1; ties go to the earlier one."""
    ranks = np.empty(scores.shape, np.int64)
    places = np.broadcast_to(np.arange(1, scores.shape[1] + 1), scores.shape)
    np.put_along_axis(ranks, np.argsort(-scores, axis=1, kind="stable"), places, axis=1)
    return ranks
