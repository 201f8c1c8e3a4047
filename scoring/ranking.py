"""The order of results: relevance, importance and recency, summed; ties go to the narrowest rung."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.fusion import Fusion

DAY_SECONDS: Final = 86_400.0
_OF_ONE_TERM: Final = Fusion.of(())


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """Shares of the parts. Recency halves every ``half_life_seconds`` of a memory's age.

    ``fusion`` belongs to one query: `fused` puts it in. By default it is that of a query of one term.
    """

    relevance: float = 0.70
    importance: float = 0.20
    recency: float = 0.10
    half_life_seconds: float = 30 * DAY_SECONDS
    fusion: Fusion = _OF_ONE_TERM

    def __post_init__(self) -> None:
        for name in ("relevance", "importance", "recency"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"weight {name} must lie between 0 and 1, it is {getattr(self, name)}")
        if not self.half_life_seconds > 0:
            raise ValueError(f"half_life must be positive, it is {self.half_life_seconds} s")

    def fused(self, fusion: Fusion) -> "RankingWeights":
        """The same shares for a query whose legs are put together so."""
        return RankingWeights(self.relevance, self.importance, self.recency, self.half_life_seconds, fusion)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Columns over n candidates, one row each.

    dense, keyword: float32, cosine and *unsaturated* BM25. importance: float32 in [0, 1].
    event_seconds, servable_from, servable_until: float64 Unix seconds. depth: int32, 1 is the top rung.
    """

    ids: list[str]
    dense: NDArray[np.float32]
    keyword: NDArray[np.float32]
    importance: NDArray[np.float32]
    event_seconds: NDArray[np.float64]
    servable_from: NDArray[np.float64]
    servable_until: NDArray[np.float64]
    depth: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One result: the row it had among the candidates, and the parts of its score."""

    row: int
    total: float
    relevance: float
    importance: float
    recency: float
    dense: float
    keyword: float


def recency(event_seconds: NDArray[np.float64], now: float, half_life: float) -> NDArray[np.float32]:
    """``0.5 ** (age / half_life)``; an event in the future counts as just happened."""
    age = np.maximum(now - event_seconds, 0.0)
    return np.exp2(-age / half_life).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Scores:
    """Columns of a scored table, float32, one row a candidate; ``keyword`` is saturated."""

    total: NDArray[np.float32]
    relevance: NDArray[np.float32]
    recency: NDArray[np.float32]
    keyword: NDArray[np.float32]


def score(
    candidates: Candidates, dense: NDArray[np.float32], weights: RankingWeights, *, now: float
) -> Scores:
    """The formula, with these cosines in place of the table's own."""
    keyword = weights.fusion.saturate(candidates.keyword)
    relevance = weights.fusion.relevance(dense, keyword)
    fresh = recency(candidates.event_seconds, now, weights.half_life_seconds)
    total = (
        np.float32(weights.relevance) * relevance
        + np.float32(weights.importance) * candidates.importance
        + np.float32(weights.recency) * fresh
    )
    return Scores(total, relevance, fresh, keyword)


def servable(candidates: Candidates, now: float, *, include_upcoming: bool = False) -> NDArray[np.bool_]:
    """Which rows may be served at ``now``; with ``include_upcoming`` those too that may be served later."""
    alive = now < candidates.servable_until
    return alive if include_upcoming else alive & (candidates.servable_from <= now)


def rank(
    candidates: Candidates,
    weights: RankingWeights,
    *,
    now: float,
    limit: int,
    include_upcoming: bool = False,
) -> list[Ranked]:
    """The best ``limit`` candidates that may be served at ``now`` (Unix seconds), best first.

    Order: total, then the narrower rung, then the later event, then the id, so that any two computers
    agree on ties. ``include_upcoming``: as in `servable`.
    """
    scores = score(candidates, candidates.dense, weights, now=now)
    total = scores.total
    rows = servable(candidates, now, include_upcoming=include_upcoming).nonzero()[0]
    if len(rows) > limit > 0:
        # Keep everything that ties with the last place: the order below decides among equals.
        reached = total[rows]
        ordered = reached.copy()
        ordered.partition(len(rows) - limit)
        rows = rows[reached >= ordered[len(rows) - limit]]
    # Lists: picking single numbers out of numpy's arrays takes longer than everything before this.
    totals, depths = total[rows].tolist(), candidates.depth[rows].tolist()
    events, ids = candidates.event_seconds[rows].tolist(), [candidates.ids[row] for row in rows.tolist()]
    order = sorted(range(len(ids)), key=lambda at: (-totals[at], -depths[at], -events[at], ids[at]))[:limit]
    best = rows[order]
    return [
        Ranked(*parts)
        for parts in zip(
            best.tolist(),
            total[best].tolist(),
            scores.relevance[best].tolist(),
            candidates.importance[best].tolist(),
            scores.recency[best].tolist(),
            candidates.dense[best].tolist(),
            scores.keyword[best].tolist(),
            strict=True,
        )
    ]
