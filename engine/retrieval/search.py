"""FAST search: dense and keyword candidates of every visible rung, scored by one formula, ranked once."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import numpy as np

from precall.engine.index.partition import Partition
from precall.engine.index.selection import Selection
from precall.engine.retrieval.query import Hit, Leg, Query
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import concatenate
from precall.scoring.ranking import Candidates, Ranked, rank

_INLINE_MEMORIES: Final = 5_000
"""Up to here a search takes well under a millisecond: less than handing it to a thread and back."""

_REPEATS: Final = 3
"""A search that loses a result to a write looks again: the successor may have the place. After so many
losses it makes the writes wait.
"""


async def search(partitions: Sequence[Partition], query: Query) -> list[Hit]:
    """`search_fast` without holding up the event loop."""
    if sum(map(len, partitions)) <= _INLINE_MEMORIES:
        return search_fast(partitions, query)
    return await asyncio.to_thread(search_fast, partitions, query)


def search_fast(partitions: Sequence[Partition], query: Query) -> list[Hit]:
    """The best ``query.limit`` memories of these rungs, best first; exact in every one of them.

    Safe beside writes: the hits are those of one moment, save that a memory removed meanwhile is left out.
    """
    for _ in range(_REPEATS):
        hits = _search_once(partitions, query)
        if None not in hits:
            break
    else:
        with ExitStack() as stillness:
            for partition in partitions:
                stillness.enter_context(partition.still())
            hits = _search_once(partitions, query)
    return [hit for hit in hits if hit is not None]


def _search_once(partitions: Sequence[Partition], query: Query) -> list[Hit | None]:
    """Hits, with None for a memory that a write took away between the scan and here."""
    partitions = [partition for partition in partitions if len(partition)]
    if not partitions:
        return []
    statistics = Statistics.sum([p.statistics(query.terms) for p in partitions], query.terms)
    term_weights = statistics.weights(query.terms)
    selection = Selection(query.weights, query.now, query.limit, query.include_upcoming)
    candidates = concatenate([p.candidates(query.vector, term_weights, selection) for p in partitions])
    ranked = rank(
        candidates,
        query.weights,
        now=query.now,
        limit=query.limit,
        include_upcoming=query.include_upcoming,
    )
    dense_bar = _nth_best(candidates, query.limit)
    hits: list[Hit | None] = []
    for score in ranked:
        memory_id = candidates.ids[score.row]
        memory = next((m for p in partitions if (m := p.memory(memory_id)) is not None), None)
        hits.append(None if memory is None else Hit(memory, score, _legs(score, dense_bar)))
    return hits


def _nth_best(candidates: Candidates, limit: int) -> float:
    """The cosine that the dense leg's last result has."""
    if len(candidates.dense) <= limit:
        return float("-inf")
    return float(np.partition(candidates.dense, len(candidates.dense) - limit)[len(candidates.dense) - limit])


def _legs(score: Ranked, dense_bar: float) -> frozenset[Leg]:
    legs = {Leg.DENSE} if score.dense >= dense_bar else set()
    return frozenset(legs | ({Leg.KEYWORD} if score.keyword > 0 else set()))
