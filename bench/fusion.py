"""Fit of the two fusion constants: LoCoMo conversations 26 and 30 choose, the others report.

python -P -m precall.bench.fusion --data ../shared/data/locomo
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.locomo import LocomoConversation, load_conversation
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.scoring import fusion
from precall.scoring.keyword import KeywordIndex, document_impacts
from precall.scoring.query_terms import QueryTerms
from precall.scoring.terms import analyze

FITTED_ON: Final = ("26", "30")
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


def encode(encoder: Encoder, texts: Sequence[str], role: TextRole) -> NDArray[np.float32]:
    """Unit vectors, shape (n, dimension), in batches of 32."""
    rows = [
        encoder.encode(
            [encoder.tokenize(text, role, truncate=True) for text in texts[start : start + 32]]
        ).vectors
        for start in range(0, len(texts), 32)
    ]
    return np.concatenate(rows)


def score(encoder: Encoder, conversation: LocomoConversation) -> ScoredQuestions:
    texts = [f"{turn.speaker}: {turn.text}" for turn in conversation.turns]
    slots = {turn.dia_id: slot for slot, turn in enumerate(conversation.turns)}
    questions = [question for question in conversation.questions if question.evidence]
    index = KeywordIndex()
    for text in texts:
        index.add(document_impacts(analyze(text)))
    statistics = index.statistics()
    asked = [QueryTerms.of(question.question).terms for question in questions]
    return ScoredQuestions(
        dense=encode(encoder, [q.question for q in questions], TextRole.QUERY)
        @ encode(encoder, texts, TextRole.DOCUMENT).T,
        keyword=np.stack([index.scores(statistics.weights(terms)) for terms in asked]),
        terms=np.array([[max(len(terms), 1)] for terms in asked], np.float32),
        evidence=[[slots[dia_id] for dia_id in q.evidence] for q in questions],
    )


def recall_at_10(scored: Sequence[ScoredQuestions], *, half: float, share: float) -> float:
    """Mean share of a question's evidence among the ten best by the fused score."""
    recalls = []
    for conversation in scored:
        keyword = conversation.keyword / (conversation.keyword + half * conversation.terms)
        fused = (1 - share) * np.clip(conversation.dense, 0, 1) + share * keyword
        best = np.argsort(-fused, axis=1, kind="stable")[:, :10]
        recalls += [
            len(set(row.tolist()) & set(evidence)) / len(set(evidence))
            for row, evidence in zip(best, conversation.evidence, strict=True)
        ]
    return float(np.mean(recalls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of LoCoMo files")
    folder: Path = parser.parse_args().data
    encoder = load_default_encoder().encoder
    conversations = [load_conversation(path) for path in sorted(folder.glob("*.json"))]
    fitting = [score(encoder, c) for c in conversations if c.id in FITTED_ON]
    held_out = [score(encoder, c) for c in conversations if c.id not in FITTED_ON]
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
