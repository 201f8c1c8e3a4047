"""Fit of the cache's judgement, and what it is worth: one part of the data chooses, the other reports.

python -P -m precall.bench.coverage_fit --data ../shared/data

Prints the numbers for `precall.scoring.calibration`, and for each budget the share of reads that a cache
serves, and serves wrong, by the fitted judgement, by proofs alone, and by a bar on the best score. Reads
before which no query was covered are left out: with few items held and typed turns they are most.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.bench.coverage_corpus import SharedCorpus, indexed_memories
from precall.bench.coverage_lab import Budget, JudgedRead, Lab
from precall.bench.quality import VECTORS_FOLDER
from precall.bench.quality_vectors import VectorCache
from precall.engine.encoding.encoder import TextRole
from precall.engine.encoding.loading import load_default_encoder
from precall.scoring.calibration import CalibratedPart
from precall.scoring.evidence import NAMES, Evidence, values


@dataclass(frozen=True, slots=True)
class Trial:
    """One in ``every`` exchanges, spoken or typed, with one budget."""

    budget: Budget
    typed: bool
    every: int = 5


TRIALS: Final = (
    *(Trial(Budget(items, items), typed=False) for items in (64, 128)),
    Trial(Budget(256, 200), typed=False, every=1),
    *(Trial(Budget(items, items // 2), typed=False) for items in (512, 1024)),
    *(Trial(Budget(items, items), typed=True) for items in (64, 128)),
    Trial(Budget(256, 200), typed=True),
    Trial(Budget(512, 256), typed=True),
    Trial(Budget(1024, 512), typed=True, every=1),
)
"""Items held, and items an answer as `RecentTurns` sizes it."""

AIMS: Final = {"continued": 0.005, "other": 0.007}
"""Wrong serves that the bar of *sure* allows, as a share of all reads: on the fitted part, each fold judged
by weights that the others gave. The contract is 1 %, the rest is margin: .007 gave 1.09 % of spoken reads
with 256 held on the held-out part.
"""

_FOLDS: Final = 5

_RIDGE: Final = 1e-3
_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class Reads:
    """Judged reads as columns: ``evidence`` (n, evidence), the rest (n,)."""

    evidence: NDArray[np.float64]
    good: NDArray[np.bool_]
    right: NDArray[np.bool_]
    best: NDArray[np.float64]
    proven: NDArray[np.bool_]
    continued: NDArray[np.bool_]
    fitted: NDArray[np.bool_]
    typed: NDArray[np.bool_]
    group: NDArray[np.str_]
    items: NDArray[np.int64]

    @classmethod
    def of(cls, reads: Sequence[JudgedRead]) -> "Reads":
        return cls(
            np.array([values(read.evidence) for read in reads]),
            np.array([read.good for read in reads]),
            np.array([read.right for read in reads]),
            np.array([read.best for read in reads]),
            np.array([read.proven for read in reads]),
            np.array([read.continued for read in reads]),
            np.array([read.exchange.fitted for read in reads]),
            np.array([read.exchange.typed for read in reads]),
            np.array([read.group for read in reads]),
            np.array([read.budget.items for read in reads]),
        )


def fit_part(evidence: NDArray[np.float64], good: NDArray[np.bool_], aim: float) -> CalibratedPart:
    """Weights from all rows, and bars that hold for rows which the weights have not seen.

    Rows of one conversation stand together: folds are runs of rows. The bar of borderline is even odds.
    """
    unseen = np.empty(len(good))
    for fold in np.array_split(np.arange(len(good)), _FOLDS):
        others = np.ones(len(good), np.bool_)
        others[fold] = False
        weights, intercept = _regress(evidence[others], good[others])
        unseen[fold] = evidence[fold] @ weights + intercept
    weights, intercept = _regress(evidence, good)
    return CalibratedPart(
        Evidence(*(round(float(weight), 4) for weight in weights)),
        round(float(intercept), 4),
        sure=round(max(bar_for(unseen, good, aim), 0.0), 4),
        borderline=0.0,
    )


def bar_for(score: NDArray[np.float64], good: NDArray[np.bool_], aim: float) -> float:
    """The lowest bar that lets at most ``aim`` of all reads be served wrong; infinite where none does."""
    order = np.argsort(-score, kind="stable")
    allowed = np.flatnonzero(np.cumsum(~good[order]) <= aim * len(good))
    return float(score[order[allowed[-1]]]) if len(allowed) else float("inf")


def _regress(evidence: NDArray[np.float64], good: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Weights and intercept. A slack that would count against an answer is left out: see `CalibratedPart`."""
    weights, intercept = _logistic(evidence, good)
    if weights[NAMES.index("slack")] < 0:
        kept = np.arange(evidence.shape[1]) != NAMES.index("slack")
        weights = np.zeros(len(kept))
        weights[kept], intercept = _logistic(evidence[:, kept], good)
    return weights, intercept


def _logistic(columns: NDArray[np.float64], good: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Logistic regression with a ridge, by Newton's steps on standardised columns."""
    mean, spread = columns.mean(axis=0), columns.std(axis=0) + 1e-9
    rows = np.column_stack([(columns - mean) / spread, np.ones(len(columns))])
    ridge = np.full(rows.shape[1], _RIDGE * len(rows))
    ridge[-1] = 0.0
    solution = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ solution, -30, 30)))
        slope = rows.T @ (good - chance) - ridge * solution
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.diag(ridge + 1e-9)
        solution += np.linalg.solve(curve, slope)
    weights = solution[:-1] / spread
    return weights, float(solution[-1] - weights @ mean)


def confidences(reads: Reads, continued: CalibratedPart, other: CalibratedPart) -> NDArray[np.float64]:
    """Log-odds over the bar of *sure*: a read is served from 0 on."""
    scores = [
        reads.evidence @ np.array(values(part.weights)) + part.intercept - part.sure
        for part in (continued, other)
    ]
    chosen: NDArray[np.float64] = np.where(reads.continued, *scores)
    return chosen


def report(reads: Reads, continued: CalibratedPart, other: CalibratedPart) -> None:
    """Print what each rule serves of the held-out reads, a line a budget."""
    score = confidences(reads, continued, other)
    for typed in (False, True):
        for items in sorted(set(reads.items.tolist())):
            these = (reads.items == items) & (reads.typed == typed)
            held_out, fitted = these & ~reads.fitted, these & reads.fitted
            if not held_out.any() or not fitted.any():
                continue
            line = f"{'typed ' if typed else 'spoken'} {items:5d} held, {held_out.sum()} reads: "
            line += f"could be right {reads.good[held_out].mean():.3f}; "
            line += "calibrated " + _served(reads, held_out, (score >= 0) | reads.proven)
            line += ", proofs " + _served(reads, held_out, reads.proven)
            for aim in (0.01, 0.005):
                bar = bar_for(reads.best[fitted], reads.good[fitted], aim)
                line += f", best score at {aim:.1%} " + _served(reads, held_out, reads.best >= bar)
                own = bar_for(score[fitted], reads.good[fitted], aim)
                line += f", own bar at {aim:.1%} " + _served(reads, held_out, score >= own)
            print(line)
        for group in sorted(set(reads.group[reads.typed == typed].tolist())):
            items = 1024 if typed else 256
            these = (reads.items == items) & (reads.typed == typed) & (reads.group == group) & ~reads.fitted
            print(f"    {group}, {items} held: " + _served(reads, these, (score >= 0) | reads.proven))


def _served(reads: Reads, these: NDArray[np.bool_], served: NDArray[np.bool_]) -> str:
    wrong = served & ~reads.good
    return f"{served[these].mean():.3f} (wrong {wrong[these].mean():.2%})"


def judged_reads(data: Path, vectors: VectorCache, trials: Sequence[Trial]) -> list[JudgedRead]:
    """The reads of all trials."""
    corpus = SharedCorpus(data)
    asked = corpus.asked_texts()
    by_text = dict(zip(asked, vectors.vectors(asked, TextRole.QUERY), strict=True))
    stored = vectors.vectors(corpus.texts, TextRole.DOCUMENT).astype(np.float16)
    lab = Lab(list(indexed_memories(corpus, stored)), by_text, vectors.encoder.card.scripts, corpus.dialogues)
    return [
        read
        for trial in trials
        for exchange in [each for each in corpus.exchanges if each.typed == trial.typed][:: trial.every]
        for read in lab.reads(exchange, trial.budget)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds locomo, scifact, xquad")
    parser.add_argument("--vectors", type=Path, default=VECTORS_FOLDER, help="where vectors are kept")
    arguments = parser.parse_args()
    vectors = VectorCache(load_default_encoder().encoder, arguments.vectors)
    reads = Reads.of(judged_reads(arguments.data, vectors, TRIALS))
    parts = []
    for name, place in (("continued", reads.continued), ("other", ~reads.continued)):
        chosen = place & reads.fitted
        part = fit_part(reads.evidence[chosen], reads.good[chosen], AIMS[name])
        print(f"{name}={part!r},  # of {chosen.sum()} reads")
        parts.append(part)
    print(f"model {vectors.encoder.card.fingerprint}")
    report(reads, parts[0], parts[1])


if __name__ == "__main__":
    main()
