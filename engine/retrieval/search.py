"""FAST search: dense and keyword candidates of every visible rung, scored by one formula, ranked once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

import numpy as np

from precall.engine.index.filter import MemoryFilter
from precall.engine.index.partition import Partition
from precall.engine.index.selection import Selection
from precall.engine.memory.memory import Memory
from precall.engine.retrieval.query import Hit, Leg, Query
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import concatenate
from precall.scoring.ranking import Candidates, Ranked, rank

_INLINE_MEMORIES: Final = 5_000
"""Up to here a search takes well under a millisecond: less than handing it to a thread and back."""

SearchMethod: TypeAlias = Callable[[Sequence[Partition], Query], Awaitable[list[Hit]]]
"""The best ``query.limit`` memories of these rungs, best first, as `search` gives them."""

_REPEATS: Final = 3
"""A search that loses a result to a write looks again: the successor may have the place. After so many
losses it makes the writes wait.
"""


async def search(partitions: Sequence[Partition], query: Query) -> list[Hit]:
    """`search_fast` without holding up the event loop."""
    if sum(map(len, partitions)) <= _INLINE_MEMORIES:
        return search_fast(partitions, query)
    return await asyncio.to_thread(search_fast, partitions, query)


async def count_visible(partitions: Sequence[Partition], asked: MemoryFilter | None) -> int:
    """Memories of these rungs that pass the filter, without holding up the event loop."""
    if asked is None or sum(map(len, partitions)) <= _INLINE_MEMORIES:
        return sum(partition.count(asked) for partition in partitions)
    return await asyncio.to_thread(lambda: sum(partition.count(asked) for partition in partitions))


def weigh_terms(partitions: Sequence[Partition], terms: Sequence[str]) -> dict[str, float]:
    """Term -> how rare it is among the memories of these rungs, for the terms that occur there."""
    if not terms:
        return {}
    return Statistics.sum([p.statistics(terms) for p in partitions], terms).weights(terms)


def search_fast(partitions: Sequence[Partition], query: Query) -> list[Hit]:
    """The best ``query.limit`` memories of these rungs, best first; exact in every one that is not `listed`.

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
    term_weights = weigh_terms(partitions, query.terms)
    weights = query.fused_weights
    selection = Selection(weights, query.now, query.limit, query.include_upcoming, query.filter)
    candidates = concatenate([p.candidates(query.vector, term_weights, selection) for p in partitions])
    ranked = rank(
        candidates,
        weights,
        now=query.now,
        limit=query.limit,
        include_upcoming=query.include_upcoming,
    )
    dense_bar = _nth_best(candidates, query.limit)
    hits: list[Hit | None] = []
    for score in ranked:
        memory_id = candidates.ids[score.row]
        memory = _memory(partitions, memory_id)
        hits.append(None if memory is None else Hit(memory, score, _legs(score, dense_bar)))
    return hits


def _memory(partitions: Sequence[Partition], memory_id: str) -> Memory | None:
    for partition in partitions:
        if (memory := partition.memory(memory_id)) is not None:
            return memory
    return None


def _nth_best(candidates: Candidates, limit: int) -> float:
    """The cosine that the dense leg's last result has."""
    if len(candidates.dense) <= limit:
        return float("-inf")
    return float(np.partition(candidates.dense, len(candidates.dense) - limit)[len(candidates.dense) - limit])


_NO_LEG: Final[frozenset[Leg]] = frozenset()
_DENSE: Final = frozenset({Leg.DENSE})
_KEYWORD: Final = frozenset({Leg.KEYWORD})
_BOTH: Final = _DENSE | _KEYWORD


def _legs(score: Ranked, dense_bar: float) -> frozenset[Leg]:
    if score.dense >= dense_bar:
        return _BOTH if score.keyword > 0 else _DENSE
    return _KEYWORD if score.keyword > 0 else _NO_LEG
