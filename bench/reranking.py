"""Does the small reranker improve on FAST search? LoCoMo 26, 30 and SciFact's even claims choose the share.

python -P -m precall.bench.reranking --data ../shared/data --csv bench/results.csv
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.fusion import encode
from precall.bench.reranking_sets import SETS, RetrievalSet
from precall.bench.results import Measurement, append_results, print_measurements
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.late_interaction import LateInteractionReranker
from precall.engine.encoding.loading import load_default_encoder
from precall.engine.retrieval.accurate import DEFAULT_CANDIDATES
from precall.scoring.fusion import Fusion, keyword_share
from precall.scoring.keyword import CONTEXT_SHARES, KeywordIndex, document_impacts
from precall.scoring.query_terms import QueryTerms
from precall.scoring.terms import analyze

CANDIDATES: Final = DEFAULT_CANDIDATES
"""The best of FAST search, which the reranker puts in a new order."""

SHARES: Final = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the reranker's score in the final one; FAST's relevance has the rest."""

LIMIT: Final = 10


@dataclass(frozen=True, slots=True)
class RerankedQuestion:
    """``share``: what a search ships for it. Candidates in FAST's order; ``fast``, ``plain`` and ``weighed``
    are their scores, float32, shape (n,).

    ``plain``: the reranker told nothing of the corpus. ``weighed``: told how rare the query's terms are.
    """

    set_name: str
    is_fitted: bool
    relevant: frozenset[int]
    share: float
    candidates: NDArray[np.int64]
    fast: NDArray[np.float32]
    plain: NDArray[np.float32]
    weighed: NDArray[np.float32]

    def mixed(self, share: float, *, weighed: bool) -> NDArray[np.float32]:
        late = self.weighed if weighed else self.plain
        return ((1 - share) * self.fast + share * late).astype(np.float32)

    def _gains(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        best = self.candidates[np.argsort(-scores, kind="stable")[:LIMIT]]
        return np.array([place in self.relevant for place in best.tolist()], np.float64)

    def recall(self, scores: NDArray[np.float32]) -> float:
        """Share of what is relevant among the ten best."""
        return float(self._gains(scores).sum()) / len(self.relevant)

    def ndcg(self, scores: NDArray[np.float32]) -> float:
        """Normalised discounted cumulative gain of the ten best, relevance 0 or 1."""
        gains = self._gains(scores)
        discounts = 1 / np.log2(np.arange(2, LIMIT + 2))
        return float(gains @ discounts[: len(gains)] / discounts[: len(self.relevant)].sum())


METRICS: Final[dict[str, Callable[[RerankedQuestion, NDArray[np.float32]], float]]] = {
    "recall@10": RerankedQuestion.recall,
    "nDCG@10": RerankedQuestion.ndcg,
}


def rerank(
    encoder: Encoder, reranker: LateInteractionReranker, corpus: RetrievalSet
) -> list[RerankedQuestion]:
    """FAST's candidates as a search without importance and recency finds them, and every score of them."""
    index = _index(corpus)
    statistics = index.statistics()
    texts = [question.text for question in corpus.questions]
    cosines = encode(encoder, texts, TextRole.QUERY) @ encode(encoder, corpus.documents, TextRole.DOCUMENT).T
    fast: list[NDArray[np.float32]] = []
    chosen: list[NDArray[np.int64]] = []
    pairs = []
    for text, dense in zip(texts, cosines, strict=True):
        asked = QueryTerms.of(text)
        term_weights = statistics.weights(asked.terms)
        fusion = Fusion.of(asked.terms, keyword_share(asked, encoder.card.scripts))
        relevance = fusion.relevance(dense, fusion.saturate(index.scores(term_weights)))
        best = np.argsort(-relevance, kind="stable")[:CANDIDATES]
        fast.append(relevance[best])
        chosen.append(best)
        pairs += [
            reranker.tokenize(text, corpus.documents[place], truncate=True, term_weights=weights)
            for weights in (None, term_weights)
            for place in best.tolist()
        ]
    # One call for the whole corpus: each text goes through the model once.
    scores = iter(np.split(reranker.score(pairs).scores, np.cumsum(np.repeat([len(b) for b in chosen], 2))))
    return [
        RerankedQuestion(
            corpus.name,
            question.is_fitted,
            question.relevant,
            reranker.search_share(len(QueryTerms.of(question.text).terms)),
            best,
            relevance,
            next(scores),
            next(scores),
        )
        for question, best, relevance in zip(corpus.questions, chosen, fast, strict=True)
    ]


def _index(corpus: RetrievalSet) -> KeywordIndex:
    terms = [analyze(document) for document in corpus.documents]
    context = corpus.context or [None] * len(terms)
    index = KeywordIndex()
    for place, own in enumerate(terms):
        before: list[list[str]] = []
        earlier = context[place]
        while earlier is not None and len(before) < len(CONTEXT_SHARES):
            before.append(terms[earlier])
            earlier = context[earlier]
        index.add(document_impacts(own, before))
    return index


def mean(questions: Sequence[RerankedQuestion], metric: str, share: float | None, *, weighed: bool) -> float:
    """``share`` None: each question's own, which a search ships."""
    measure = METRICS[metric]
    figures = [
        measure(each, each.mixed(each.share if share is None else share, weighed=weighed))
        for each in questions
    ]
    return float(np.mean(figures))


def report(name: str, questions: Sequence[RerankedQuestion]) -> list[Measurement]:
    """Print the whole grid of one half of one set; rows of what a search ships, beside FAST."""
    metric = "nDCG@10" if name.startswith("scifact") else "recall@10"
    measurements = []
    for shown in METRICS:
        for weighed in (False, True):
            figures = [mean(questions, shown, share, weighed=weighed) for share in SHARES]
            told = "weighed" if weighed else "plain"
            grid = "  ".join(f"{s:.1f}: {figure:.4f}" for s, figure in zip(SHARES, figures, strict=True))
            shipped = mean(questions, shown, None, weighed=weighed)
            grid += f"  shipped: {shipped:.4f}"
            print(f"{name:<18} {len(questions):>4} {shown:<9} {told:<8} {grid}", flush=True)
            if shown == metric:
                gain = shipped / figures[0]
                measurements.append(
                    Measurement("rerank", f"{name} {told}", metric, shipped, "share", "FAST", gain)
                )
    return measurements


def pair_milliseconds(reranker: LateInteractionReranker, corpus: RetrievalSet, repeats: int = 8) -> float:
    """Median milliseconds that the tokens and scores of one question's candidates take."""
    times = []
    for number, question in enumerate(corpus.questions[:repeats]):
        documents = corpus.documents[number : number + CANDIDATES]
        begin = time.perf_counter()
        reranker.score([reranker.tokenize(question.text, text, truncate=True) for text in documents])
        times.append(1e3 * (time.perf_counter() - begin))
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds locomo, scifact, ...")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="which of them")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    arguments = parser.parse_args()
    encoder, reranker = load_default_encoder().encoder, LateInteractionReranker()
    measurements = []
    for name in arguments.sets:
        corpora = SETS[name](arguments.data / name)
        questions = [each for corpus in corpora for each in rerank(encoder, reranker, corpus)]
        for half, is_fitted in (("fitted", True), ("held out", False)):
            part = [each for each in questions if each.is_fitted == is_fitted]
            if part:
                measurements += report(f"{name} {half}", part)
        took = pair_milliseconds(reranker, corpora[0])
        measurements.append(Measurement("rerank", name, f"p50 of {CANDIDATES} documents", took, "ms"))
    print_measurements(measurements)
    if arguments.csv:
        append_results(arguments.csv, measurements)


if __name__ == "__main__":
    main()
