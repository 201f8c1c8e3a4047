"""Fit of the two fusion constants: LoCoMo conversations 26 and 30 choose, the others report.

python -P -m precall.bench.fusion --data ../shared/data
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.quality import VECTORS_FOLDER, encode
from precall.bench.quality_measures import judge
from precall.bench.quality_methods import score_dense, score_keyword_leg
from precall.bench.quality_sets import LabelledSet, load_sets
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.loading import load_default_encoder
from precall.scoring import fusion
from precall.scoring.query_terms import QueryTerms

HALVES: Final = (1.0, 2.0, 3.0, 4.0, 6.0)
"""For each term of a question."""

SHARES: Final = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class ScoredQuestions:
    """Raw scores of one conversation: ``dense``, ``keyword`` float32, shape (questions, memories).

    ``terms``: distinct ones of each question, at least 1, float32, shape (questions, 1).
    """

    dense: NDArray[np.float32]
    keyword: NDArray[np.float32]
    terms: NDArray[np.float32]
    evidence: Sequence[Sequence[int]]


def score(labelled: LabelledSet, vectors: VectorCache) -> ScoredQuestions:
    encoded = encode(labelled, vectors)
    terms = [len(QueryTerms.of(query.text).terms) for query in labelled.queries]
    return ScoredQuestions(
        dense=score_dense(encoded),
        keyword=score_keyword_leg(encoded),
        terms=np.maximum(np.array(terms, np.float32), 1)[:, None],
        evidence=[query.relevant for query in labelled.queries],
    )


def recall_at_10(scored: Sequence[ScoredQuestions], *, half: float, share: float) -> float:
    """Mean share of a question's evidence among the ten best by the fused score."""
    recalls = []
    for conversation in scored:
        keyword = conversation.keyword / (conversation.keyword + half * conversation.terms)
        fused = (1 - share) * np.clip(conversation.dense, 0, 1) + share * keyword
        recalls.append(judge(fused.astype(np.float32), conversation.evidence).recall_10)
    return float(np.concatenate(recalls).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds locomo")
    parser.add_argument("--vectors", type=Path, default=VECTORS_FOLDER, help="where vectors are kept")
    arguments = parser.parse_args()
    vectors = VectorCache(load_default_encoder().encoder, arguments.vectors)
    conversations = load_sets(arguments.data, ("locomo",))
    fitting = [score(each, vectors) for each in conversations if each.name == "locomo-fitted"]
    held_out = [score(each, vectors) for each in conversations if each.name == "locomo-held-out"]
    grid = {(h, s): recall_at_10(fitting, half=h, share=s) for h, s in product(HALVES, SHARES)}
    for half in HALVES:
        print(f"half {half:4.1f}  " + "  ".join(f"{s:.1f}: {grid[half, s]:.3f}" for s in SHARES))
    half, share = max(grid, key=lambda pair: grid[pair])
    print(f"chosen half {half}, share {share}: fitted {grid[half, share]:.3f}")
    shipped = ("shipped", fusion.HALF_PER_TERM, fusion.KEYWORD_SHARE)
    for name, h, s in (shipped, ("chosen", half, share), ("dense", half, 0.0), ("keyword", half, 1.0)):
        print(f"held out, {name}: recall@10 {recall_at_10(held_out, half=h, share=s):.3f}")


if __name__ == "__main__":
    main()
