"""Fit of how much the small reranker counts in a search: it chooses among rules that know the query alone.

python -P -m precall.bench.reranking --data ../shared/data --training-claims 300

LoCoMo conversations 26 and 30 and SciFact's training claims choose, by the mean of their nDCG@10; the other
conversations and the test claims report.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.quality import VECTORS_FOLDER, encode
from precall.bench.quality_measures import QueryMeasures, judge
from precall.bench.quality_methods import EncodedSet, keyword_index, score_fast
from precall.bench.quality_sets import TRAINING_CLAIMS, LabelledSet, load_scifact, load_sets, sampled
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.late_interaction import LateInteractionReranker
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.encoding.reranker import Reranker
from precall.engine.retrieval.accurate import DEFAULT_CANDIDATES
from precall.scoring.query_terms import QueryTerms

SHARES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
FEW_TERMS: Final = (2, 3, 4, 6, 8)
POWERS: Final = (0.0, 0.5, 1.0, 2.0)
FITTED: Final = ("locomo-fitted", "scifact-training")


@dataclass(frozen=True, slots=True)
class ShareRule:
    """The share for a query of ``terms`` terms is ``share * min(1, few / terms) ** power``."""

    share: float
    few: int
    power: float

    def of(self, terms: NDArray[np.float32]) -> NDArray[np.float32]:
        falling = np.minimum(1, self.few / np.maximum(terms, 1)) ** self.power
        return (self.share * falling).astype(np.float32)


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """FAST's candidates of each query, and both scores of them.

    ``candidates`` int64, ``fast`` and ``judged`` float32, all of shape (queries, candidates); ``terms``,
    ``shipped``: how many terms each query has, and the share that a search gives the reranker for it,
    float32, shape (queries, 1).
    """

    labelled: LabelledSet
    candidates: NDArray[np.int64]
    fast: NDArray[np.float32]
    judged: NDArray[np.float32]
    terms: NDArray[np.float32]
    shipped: NDArray[np.float32]

    def measures(self, shares: NDArray[np.float32]) -> QueryMeasures:
        scores = np.full((len(self.candidates), len(self.labelled.memories)), -1.0, np.float32)
        mixed = (1 - shares) * self.fast + shares * self.judged
        np.put_along_axis(scores, self.candidates, mixed.astype(np.float32), axis=1)
        return judge(scores, [query.relevant for query in self.labelled.queries])


def judge_candidates(encoded: EncodedSet, reranker: Reranker) -> JudgedSet:
    """What an ACCURATE search would read of the set, read in one call."""
    fast = score_fast(encoded)
    best = np.argsort(-fast, axis=1, kind="stable")[:, :DEFAULT_CANDIDATES]
    statistics = keyword_index(encoded.labelled).statistics()
    asked = [QueryTerms.of(query.text) for query in encoded.labelled.queries]
    pairs = [
        reranker.tokenize(
            query.text,
            encoded.labelled.memories[row],
            truncate=True,
            term_weights=statistics.weights(terms.terms),
        )
        for query, terms, rows in zip(encoded.labelled.queries, asked, best, strict=True)
        for row in rows.tolist()
    ]
    return JudgedSet(
        encoded.labelled,
        best,
        np.take_along_axis(fast, best, axis=1),
        reranker.score(pairs).scores.reshape(best.shape),
        np.array([len(terms.terms) for terms in asked], np.float32)[:, None],
        np.array([reranker.search_share(terms) for terms in asked], np.float32)[:, None],
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over the queries of all sets of one name."""

    recall_10: float
    ndcg_10: float

    @staticmethod
    def of(sets: Sequence[JudgedSet], rule: ShareRule | None) -> "Figures":
        """``rule`` None: what a search ships."""
        measures = QueryMeasures.concatenate(
            [each.measures(each.shipped if rule is None else rule.of(each.terms)) for each in sets]
        )
        return Figures(float(measures.recall_10.mean()), float(measures.ndcg_10.mean()))


def best_rule(fitting: Sequence[Sequence[JudgedSet]]) -> ShareRule:
    """The rule of the grid with the highest mean nDCG@10, every name counting alike."""
    rules = [ShareRule(*each) for each in product(SHARES, FEW_TERMS, POWERS)]
    return max(rules, key=lambda rule: sum(Figures.of(sets, rule).ndcg_10 for sets in fitting))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds locomo and scifact")
    parser.add_argument("--training-claims", type=int, default=809, help="at most so many (default: all)")
    parser.add_argument("--vectors", type=Path, default=VECTORS_FOLDER, help="where vectors are kept")
    arguments = parser.parse_args()
    vectors = VectorCache(load_default_encoder().encoder, arguments.vectors)
    reranker = LateInteractionReranker()
    (training,) = load_scifact(arguments.data / "scifact", TRAINING_CLAIMS)
    training = replace(sampled(training, arguments.training_claims), name=training.name)
    judged: dict[str, list[JudgedSet]] = {}
    for each in [training, *load_sets(arguments.data, ("locomo", "scifact"))]:
        judged.setdefault(each.name, []).append(judge_candidates(encode(each, vectors), reranker))
    chosen = best_rule([judged[name] for name in FITTED])
    print(f"chosen: {chosen}")
    rules = {"FAST": ShareRule(0.0, 1, 0.0), "late interaction": ShareRule(1.0, 1, 0.0)}
    for name, sets in judged.items():
        for label, rule in {**rules, "shipped": None, "chosen": chosen}.items():
            figures = Figures.of(sets, rule)
            print(f"{name:<18} {label:<18} recall@10 {figures.recall_10:.4f}  nDCG@10 {figures.ndcg_10:.4f}")


if __name__ == "__main__":
    main()
