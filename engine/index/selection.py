"""Which rows may be among the best, judged from codes and postings: a row is left out only if enough others
are surely better.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.codes import NO_SLOTS, NO_TOTALS, Codes, Nearest, Question
from precall.engine.index.filter import MemoryFilter
from precall.scoring.memory_set import MemorySet
from precall.scoring.ranking import RankingWeights, recency, score

# No number down to `_MISFITS_TAKEN_UNJUDGED` changes what is found: each trades one kind of work for another.
# Figures: processor time, in turns within one run, with 384 dimensions and memories of
# `bench/index_memories.py`.

_FIRST_PER_RESULT: Final = 3
"""Candidates to begin with. With 1 a search for 100 among 10,000 has to ask again and takes 1.7 times as
long, with 10 it has most of them for nothing and takes 1.4 times.
"""

_GROWTH: Final = 6
"""Times the candidates when they were too few: from 2 to 20 it makes 5 %, as few searches ask twice."""

_GROWTH_WITHOUT_AGE: Final = 40
"""The same where codes leave recency out. Chosen, not tuned (6 to 200: 5 %): the bar then lies the weight of
recency lower than what is unread may have, and small steps would read the codes again for nothing.
"""

_STRONGEST: Final = 32
"""Matches with exact totals, which lift the bar: several times the usual limit. 8 save 3 %, 128 cost 9 %."""

_MATCHES_PER_CANDIDATE: Final = 10
_MOST_FOR_MATCHES: Final = 2_048
"""The more rows hold a term, the lower the bound on their cosines has to be for most of them to be left out;
but a candidate costs more than a match. With 3 matches to a candidate queries of ten words take 1.04 to 1.2
times as long. The most keeps common words from asking for everything; chosen, not tuned (with 3 to a
candidate 8,192 cost up to 1.5 times, 512 saved up to a fifth).
"""

_MISFITS_TAKEN_UNJUDGED: Final = 32
"""Rows that are scored sooner than bounded; chosen, not tuned."""

_ROUNDING: Final = 1e-5
"""Over what float32 loses in a total and in what bounds one: neither is more than 3, and some ten operations
lose 1e-7 each. A code's own total is `score_space.Lifted`'s affair.
"""


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
    """Slots that hold the best ``question.limit`` of the allowed rows (None: of all), all that tie with the
    last of them, and a few others; each once.

    Certain for flat codes; listed ones may miss a row whose list was left out. Fagin's threshold algorithm
    over two sources: codes give the rows that are best without keywords and bound the rest, postings give the
    keywords.

    Let N be the total of the ``limit``-th best. The bar lies `_ROUNDING` below N, and no sum here is off by
    as much: a row with N or more is over the bar in every sum that is not less than its total. Each step says
    which rows it is about, and which such sum it holds against the bar; together they are about all:

    - misfits of the codes: `_hopeful_misfits`. Of the others
    - those that were read and have a cosine of 0 or more: `_likely`;
    - those that hold a term, unread or with a cosine below 0: `_hopeful_matches`;
    - those that hold none, with a cosine below 0: `_good_on_the_far_side`;
    - those that hold none, unread, with a cosine of 0 or more: nobody, reading ended when they had all fallen
      below the bar.
    """
    matches = _matches(held, question, evidence, allowed)
    reading = _read(held, codes, question, evidence, allowed, matches)
    apart = [_likely(reading), _hopeful_misfits(held, codes, question, evidence, reading.bar)]
    perhaps_again = [_good_on_the_far_side(held, question, reading), _hopeful_matches(reading, matches)]
    slots = np.concatenate(apart + perhaps_again)
    if any(map(len, perhaps_again)):
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


_NO_MATCHES: Final = _Matches(NO_SLOTS, NO_TOTALS, NO_TOTALS, NO_SLOTS, NO_TOTALS)


def _matches(
    held: MemorySet, question: Question, evidence: KeywordEvidence, allowed: NDArray[np.bool_] | None
) -> _Matches:
    touched = evidence.slots if allowed is None else evidence.slots[allowed[evidence.slots]]
    if not len(touched):
        return _NO_MATCHES
    slots = touched.astype(np.int64)
    potential = _by_keywords(question.weights, evidence, slots)
    merits = _without_cosine(held, question, slots)
    strongest = slots
    if len(slots) > _STRONGEST:
        strongest = slots[np.argpartition(merits + potential, -_STRONGEST)[-_STRONGEST:]]
    strongest = np.unique(strongest)
    table = held.chosen(strongest, question.vector, evidence.scores[strongest])
    totals = score(table, table.dense, question.weights, now=question.now).total
    return _Matches(slots, potential, merits, strongest, totals)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What codes were asked for, until no other row without keywords can matter.

    ``totals``: of ``near.slots``, recency and keywords included, float32, to within ``near.slack``, misfits
    apart. ``fitting``: which of them are no misfits, bool; None: all. ``bar``: what ``limit`` rows have and
    `_ROUNDING` more. ``unseen``: the most that a row has which was not read, keywords left out, if it is no
    misfit and its cosine is not below 0.
    """

    near: Nearest
    totals: NDArray[np.float32]
    fitting: NDArray[np.bool_] | None
    bar: float
    unseen: float


def _read(
    held: MemorySet,
    codes: Codes,
    question: Question,
    evidence: KeywordEvidence,
    allowed: NDArray[np.bool_] | None,
    matches: _Matches,
) -> _Reading:
    weights, limit, misfits = question.weights, question.limit, codes.misfits
    count = max(
        codes.first,
        _FIRST_PER_RESULT * limit,
        min(len(matches.slots) // _MATCHES_PER_CANDIDATE, _MOST_FOR_MATCHES),
    )
    least = None
    while True:
        near = codes.nearest(question, count, allowed, least)
        totals = _with_recency(held, near, question)
        if len(matches.slots):
            totals = totals + _by_keywords(weights, evidence, near.slots)
        fitting = None if misfits.misses(near.slots) else ~misfits.holds(near.slots)
        reached = _surely_reached(near, totals, fitting, matches)
        bar = _nth_best(reached, limit) - near.slack - _ROUNDING
        unseen = near.unseen + (0.0 if near.aged else weights.recency)
        if unseen <= bar or count >= len(codes):
            return _Reading(near, totals, fitting, bar, unseen)
        count *= _GROWTH if near.aged else _GROWTH_WITHOUT_AGE
        least = bar


def _likely(reading: _Reading) -> NDArray[np.int64]:
    """Of rows that were read and whose cosine is not below 0: a total is at most ``slack`` more than the
    code's.
    """
    likely = reading.totals >= reading.bar - reading.near.slack
    return reading.near.slots[likely if reading.fitting is None else likely & reading.fitting]


def _hopeful_misfits(
    held: MemorySet, codes: Codes, question: Question, evidence: KeywordEvidence, bar: float
) -> NDArray[np.int64]:
    """Of misfits, read or not: a total is at most what it would be if the vector were the query's."""
    misfits = codes.misfits.array()
    if len(misfits) <= _MISFITS_TAKEN_UNJUDGED:
        return misfits
    weights = question.weights
    most = _without_cosine(held, question, misfits)
    most += np.float32(weights.relevance * (1 - weights.fusion.share))
    most += _by_keywords(weights, evidence, misfits)
    return misfits[most >= bar]


def _good_on_the_far_side(held: MemorySet, question: Question, reading: _Reading) -> NDArray[np.int64]:
    """Of rows that hold no term and whose cosine is below 0: a total is importance and recency, as relevance
    cuts cosines at 0. The codes do not, and say less of them.
    """
    near, bar, weights = reading.near, reading.bar, question.weights
    if near.far_side < bar:
        return NO_SLOTS
    slots = near.slots
    if near.unseen > float("-inf"):
        # Recency takes a power of two a row: only where importance leaves it a chance.
        least = (bar - weights.recency) / max(weights.importance, _ROUNDING)
        slots = (held.importance >= np.float32(least)).nonzero()[0]
    return slots[_without_cosine(held, question, slots) >= bar]


def _hopeful_matches(reading: _Reading, matches: _Matches) -> NDArray[np.int64]:
    """Of rows that hold a term. With a cosine below 0 a total is what there is beside the cosine. Unread, and
    with another cosine, it is at most what keywords add to ``unseen``, and at most what ``dense_bound`` adds
    to the rest.
    """
    if not len(matches.slots):
        return NO_SLOTS
    bar = reading.bar
    without_cosine = matches.merits + matches.potential
    good = without_cosine >= bar
    hopeful = (matches.potential >= bar - reading.unseen).nonzero()[0]
    bounds = without_cosine[hopeful] + reading.near.dense_bound(matches.slots[hopeful])
    good[hopeful[bounds >= bar]] = True
    return matches.slots[good]


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


def _with_recency(held: MemorySet, near: Nearest, question: Question) -> NDArray[np.float32]:
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


def _without_cosine(held: MemorySet, question: Question, slots: NDArray[np.int64]) -> NDArray[np.float32]:
    """Importance and recency of these rows, weighed."""
    weights = question.weights
    fresh = recency(held.event_seconds[slots], question.now, weights.half_life_seconds)
    totals: NDArray[np.float32] = (
        np.float32(weights.recency) * fresh + np.float32(weights.importance) * held.importance[slots]
    )
    return totals


def _by_keywords(
    weights: RankingWeights, evidence: KeywordEvidence, slots: NDArray[np.int64]
) -> NDArray[np.float32]:
    """What keywords add to the totals of these rows."""
    scale = np.float32(weights.relevance * weights.fusion.share)
    added: NDArray[np.float32] = scale * weights.fusion.saturate(evidence.scores[slots])
    return added
