"""Search over the memories of a fake client, by the server's formulas but without a model."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from precall.client import convert
from precall.client.fake_keywords import keyword_scores
from precall.client.filter import MemoryFilter
from precall.client.memory import Memory
from precall.client.read import ReadItem
from precall.scoring import ranking, terms
from precall.scoring.fusion import Fusion
from precall.scoring.ranking import Candidates, RankingWeights


def search(
    visible: Sequence[Memory], query: str, *, filter: MemoryFilter, limit: int, now: datetime
) -> tuple[ReadItem, ...]:
    """The best of what a reader sees, in order of arrival, that passes the filter; the dense part is 0.

    What it narrows to is scored as a part of the whole: how rare a word is does not depend on the filter.
    """
    query_terms = terms.analyze(query)
    scores = keyword_scores(visible, query_terms)
    admitted = [place for place, memory in enumerate(visible) if filter.admits(memory)]
    memories = [visible[place] for place in admitted]
    candidates = Candidates(
        ids=[memory.id for memory in memories],
        dense=np.zeros(len(memories), np.float32),
        keyword=scores[admitted],
        importance=np.array([memory.importance for memory in memories], np.float32),
        event_seconds=np.array([memory.event_time.timestamp() for memory in memories], np.float64),
        servable_from=np.array([_servable_from(memory) for memory in memories], np.float64),
        servable_until=np.array([_servable_until(memory) for memory in memories], np.float64),
        depth=np.array([len(memory.scope) for memory in memories], np.int32),
    )
    weights = RankingWeights().fused(Fusion.of(query_terms))
    return tuple(
        ReadItem(
            memory=memories[each.row],
            score=convert.score_from_ranked(each),
            rung=list(memories[each.row].scope)[-1],
            age=convert.age(memories[each.row], now),
        )
        for each in ranking.rank(candidates, weights, now=now.timestamp(), limit=limit)
    )


def _servable_from(memory: Memory) -> float:
    return memory.valid_from.timestamp() if memory.valid_from else float("-inf")


def _servable_until(memory: Memory) -> float:
    ends = [moment.timestamp() for moment in (memory.valid_until, memory.expires_at) if moment is not None]
    return min(ends, default=float("inf"))
