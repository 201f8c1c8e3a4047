"""How good a ranking is: recall and nDCG of each query, their means, and how sure those are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

DEPTH: Final = 10
DEEP: Final = 50
_RESAMPLES: Final = 2_000
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class QueryMeasures:
    """One value a query, float64, shape ``(queries,)``, each in [0, 1].

    ``recall_10``, ``recall_50``: share of the relevant memories among the first 10 and 50. ``ndcg_10``:
    discounted gain of the first 10 by the best that was possible, every relevant memory being worth the same
    (Järvelin & Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002).
    """

    recall_10: NDArray[np.float64]
    recall_50: NDArray[np.float64]
    ndcg_10: NDArray[np.float64]

    def of(self, metric: str) -> NDArray[np.float64]:
        """The values of "recall@10", "recall@50" or "nDCG@10"."""
        return {f"recall@{DEPTH}": self.recall_10, f"recall@{DEEP}": self.recall_50}.get(metric, self.ndcg_10)

    @staticmethod
    def concatenate(parts: Sequence["QueryMeasures"]) -> "QueryMeasures":
        return QueryMeasures(
            np.concatenate([part.recall_10 for part in parts]),
            np.concatenate([part.recall_50 for part in parts]),
            np.concatenate([part.ndcg_10 for part in parts]),
        )

    def where(self, chosen: NDArray[np.bool_]) -> "QueryMeasures":
        """Those of some queries only."""
        return QueryMeasures(self.recall_10[chosen], self.recall_50[chosen], self.ndcg_10[chosen])


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds that hold it in 95 of 100 resamples of the queries."""

    mean: float
    low: float
    high: float


def judge(scores: NDArray[np.float32], relevant: Sequence[Sequence[int]]) -> QueryMeasures:
    """Measures of the order that ``scores``, shape (queries, memories), give; ties go to the earlier memory.

    ``relevant``: rows of the memories that answer each query, at least one, each once.
    """
    answers = np.zeros(scores.shape, np.bool_)
    for query, rows in enumerate(relevant):
        answers[query, list(rows)] = True
    counts = answers.sum(axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :DEEP]
    found = np.take_along_axis(answers, best, axis=1)
    discounts = 1 / np.log2(np.arange(2, DEPTH + 2))
    ideal = np.cumsum(discounts)[np.minimum(counts, DEPTH) - 1]
    shallow = found[:, :DEPTH]
    return QueryMeasures(
        recall_10=shallow.sum(axis=1) / counts,
        recall_50=found.sum(axis=1) / counts,
        ndcg_10=(shallow * discounts[: shallow.shape[1]]).sum(axis=1) / ideal,
    )


def interval(values: NDArray[np.float64]) -> Interval:
    """Mean of a value a query, with the percentile bootstrap's bounds (Efron 1979); deterministic.

    Two methods are compared by the interval of their differences, query by query.
    """
    generator = np.random.default_rng(_SEED)
    means = [float(values[generator.integers(0, len(values), len(values))].mean()) for _ in range(_RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))
