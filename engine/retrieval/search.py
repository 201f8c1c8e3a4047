"""FAST search: dense and keyword candidates of every visible rung, scored by one formula, ranked once."""

from collections.abc import Sequence

import numpy as np

from precall.engine.index.partition import Partition
from precall.engine.retrieval.query import Hit, Leg, Query
from precall.scoring.keyword import Statistics
from precall.scoring.memory_set import concatenate
from precall.scoring.ranking import Candidates, Ranked, rank


def search_fast(partitions: Sequence[Partition], query: Query) -> list[Hit]:
    """The best ``query.limit`` memories of these rungs, best first."""
    partitions = [partition for partition in partitions if len(partition)]
    if not partitions:
        return []
    statistics = Statistics.sum([p.statistics(query.terms) for p in partitions], query.terms)
    term_weights = statistics.weights(query.terms)
    candidates = concatenate(
        [p.candidates(query.vector, term_weights, limit=query.limit) for p in partitions]
    )
    ranked = rank(candidates, query.weights, now=query.now, limit=query.limit)
    dense_bar = _nth_best(candidates, query.limit)
    hits = []
    for score in ranked:
        memory_id = candidates.ids[score.row]
        # A memory destroyed since its partition was scanned is in none of them any more.
        memory = next((m for p in partitions if (m := p.memory(memory_id)) is not None), None)
        if memory is not None:
            hits.append(Hit(memory, score, _legs(score, dense_bar)))
    return hits


def _nth_best(candidates: Candidates, limit: int) -> float:
    """The cosine that the dense leg's last result has."""
    if len(candidates.dense) <= limit:
        return float("-inf")
    return float(np.partition(candidates.dense, len(candidates.dense) - limit)[len(candidates.dense) - limit])


def _legs(score: Ranked, dense_bar: float) -> frozenset[Leg]:
    legs = {Leg.DENSE} if score.dense >= dense_bar else set()
    return frozenset(legs | ({Leg.KEYWORD} if score.keyword > 0 else set()))
