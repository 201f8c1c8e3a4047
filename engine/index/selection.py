"""Which rows may be among the best, judged from codes: a row is left out only if enough others are surely
better.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.codes import Codes, Nearest, Question
from precall.engine.index.filter import MemoryFilter
from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import RankingWeights, recency, score

_FIRST_PER_RESULT: Final = 3
_GROWTH: Final = 6
_GROWTH_WITHOUT_AGE: Final = 40

_STRONGEST: Final = 32
_MOST_FOR_MATCHES: Final = 2_048
"""The more rows hold a term, the lower the bound on their cosines has to be for most of them to be left
out.
"""

_FEW_MISFITS: Final = 32
"""Rows that are scored sooner than bounded."""

_ROUNDING: Final = 1e-5
"""Over what float32 loses in a total, whose parts add up to about 1."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a search asks of a partition beside its query. ``include_upcoming``: see `ranking.servable`."""

    weights: RankingWeights
    now: float
    limit: int
    include_upcoming: bool = False
    filter: MemoryFilter | None = None


@dataclass(frozen=True, slots=True)
class KeywordEvidence:
    """``scores``: unsaturated BM25 by slot, float32. ``slots``: those above 0, some of them several times."""

    scores: NDArray[np.float32]
    slots: NDArray[np.uint32]


def select(
    held: MemorySet,
    codes: Codes,
    question: Question,
    evidence: KeywordEvidence,
    allowed: NDArray[np.bool_] | None,
) -> NDArray[np.int64]:
    """Slots that hold the best ``question.limit`` of the allowed rows (None: of all), and a few others.

    Certain for flat codes; listed ones may miss a row whose list was left out. Fagin's threshold algorithm
    over two sources: codes give the rows that are best without keywords and bound the rest, postings give the
    keywords.
    """
    weights, limit = question.weights, question.limit
    scale = np.float32(weights.relevance * weights.fusion.share)
    misfits = codes.misfits
    matches = _matches(held, question, evidence, allowed)
    count = max(codes.first, _FIRST_PER_RESULT * limit, min(len(matches.slots) // 3, _MOST_FOR_MATCHES))
    least = None
    while True:
        near = codes.nearest(question, count, allowed, least)
        totals = _corrected(held, near, question)
        if len(matches.slots):
            totals = totals + scale * weights.fusion.saturate(evidence.scores[near.slots])
        fitting = None if misfits.misses(near.slots) else ~misfits.holds(near.slots)
        reached = _surely_reached(near, totals, fitting, matches)
        bar = _nth_best(reached, limit) - near.slack - _ROUNDING
        unseen = near.unseen + (0.0 if near.aged else weights.recency)
        if unseen <= bar or count >= len(codes):
            break
        count *= _GROWTH if near.aged else _GROWTH_WITHOUT_AGE
        least = bar
    likely = totals >= bar - near.slack
    chosen = [
        near.slots[likely if fitting is None else likely & fitting],
        _hopeful(held, question, evidence, misfits.array(), bar),
    ]
    once = len(chosen)
    # Relevance cuts cosines at 0 and the codes do not: a row on the far side has more than they say.
    if near.far_side >= bar:
        chosen.append(_good_on_the_far_side(held, question, near, bar))
    if len(matches.slots):
        without_cosine = matches.merits + matches.potential
        chosen.append(matches.slots[without_cosine >= bar - _ROUNDING])
        hopeful = np.flatnonzero(matches.potential >= bar - unseen)
        slots = matches.slots[hopeful]
        chosen.append(slots[without_cosine[hopeful] + near.dense_bound(slots) >= bar - _ROUNDING])
    slots = np.concatenate(chosen)
    if any(map(len, chosen[once:])):
        slots = np.unique(slots)
    return slots if allowed is None else slots[allowed[slots]]


@dataclass(frozen=True, slots=True)
class _Matches:
    """Rows that hold a term, some of them several times: what keywords add to each one's total, and what
    importance and recency do. ``strongest``: a few that have most of both, each once, with their exact
    totals.
    """

    slots: NDArray[np.int64]
    potential: NDArray[np.float32]
    merits: NDArray[np.float32]
    strongest: NDArray[np.int64]
    totals: NDArray[np.float32]


_NO_SLOTS: Final = np.empty(0, np.int64)
_NO_TOTALS: Final = np.empty(0, np.float32)
_NO_MATCHES: Final = _Matches(_NO_SLOTS, _NO_TOTALS, _NO_TOTALS, _NO_SLOTS, _NO_TOTALS)


def _matches(
    held: MemorySet, question: Question, evidence: KeywordEvidence, allowed: NDArray[np.bool_] | None
) -> _Matches:
    touched = evidence.slots if allowed is None else evidence.slots[allowed[evidence.slots]]
    if not len(touched):
        return _NO_MATCHES
    slots = touched.astype(np.int64)
    weights = question.weights
    potential = np.float32(weights.relevance * weights.fusion.share) * weights.fusion.saturate(
        evidence.scores[slots]
    )
    merits = _without_cosine(held, question, slots)
    strongest = slots
    if len(slots) > _STRONGEST:
        strongest = slots[np.argpartition(merits + potential, -_STRONGEST)[-_STRONGEST:]]
    strongest = np.unique(strongest)
    table = held.chosen(strongest, question.vector, evidence.scores[strongest])
    totals = score(table, table.dense, question.weights, now=question.now).total
    return _Matches(slots, potential, merits, strongest, totals)


def _surely_reached(
    near: Nearest, totals: NDArray[np.float32], fitting: NDArray[np.bool_] | None, matches: _Matches
) -> NDArray[np.float32]:
    """Totals that so many different rows have, but for the codes' slack."""
    if not len(matches.strongest):
        return totals if fitting is None else totals[fitting]
    unknown = np.isin(near.slots, matches.strongest, invert=True)
    return np.concatenate([totals[unknown if fitting is None else unknown & fitting], matches.totals])


def _nth_best(totals: NDArray[np.float32], count: int) -> float:
    if len(totals) < count:
        return float("-inf")
    ordered = totals.copy()
    ordered.partition(len(totals) - count)
    return float(ordered[len(totals) - count])


def _corrected(held: MemorySet, near: Nearest, question: Question) -> NDArray[np.float32]:
    """The codes' totals with the recency that they lack or, for an event after ``now``, without what is too
    much.
    """
    weights, now = question.weights, question.now
    events = held.event_seconds[near.slots]
    if not near.aged:
        added = recency(events, now, weights.half_life_seconds)
    else:
        if not len(events) or events.max() <= now:
            return near.totals
        ahead = np.maximum(events - now, 0.0)
        added = (1 - np.exp2(ahead / weights.half_life_seconds)).astype(np.float32)
    totals: NDArray[np.float32] = near.totals + np.float32(weights.recency) * added
    return totals


def _hopeful(
    held: MemorySet,
    question: Question,
    evidence: KeywordEvidence,
    misfits: NDArray[np.int64],
    bar: float,
) -> NDArray[np.int64]:
    """Those of the misfits that reach the bar if they are what the query says word for word."""
    if len(misfits) <= _FEW_MISFITS:
        return misfits
    weights = question.weights
    scale = np.float32(weights.relevance * weights.fusion.share)
    dense = np.float32(weights.relevance * (1 - weights.fusion.share))
    most = _without_cosine(held, question, misfits) + dense
    most += scale * weights.fusion.saturate(evidence.scores[misfits])
    return misfits[most >= bar - _ROUNDING]


def _good_on_the_far_side(
    held: MemorySet, question: Question, near: Nearest, bar: float
) -> NDArray[np.int64]:
    """Rows that reach the bar without keywords whatever their cosine."""
    weights, slots = question.weights, near.slots
    if near.unseen > float("-inf"):
        # Recency takes a power of two a row: only where importance leaves it a chance.
        least = (bar - 2 * _ROUNDING - weights.recency) / max(weights.importance, _ROUNDING)
        slots = (held.importance >= np.float32(least)).nonzero()[0]
    return slots[_without_cosine(held, question, slots) >= bar - _ROUNDING]


def _without_cosine(held: MemorySet, question: Question, slots: NDArray[np.int64]) -> NDArray[np.float32]:
    """Importance and recency of these rows, weighed."""
    weights = question.weights
    fresh = recency(held.event_seconds[slots], question.now, weights.half_life_seconds)
    totals: NDArray[np.float32] = (
        np.float32(weights.recency) * fresh + np.float32(weights.importance) * held.importance[slots]
    )
    return totals
