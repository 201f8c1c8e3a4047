"""Searches on their way in and their results on the way out."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from precall.engine.errors import InvalidInput
from precall.engine.memory.ladder import Ladder
from precall.engine.retrieval.query import Hit
from precall.proto import common_pb2, retrieval_pb2
from precall.scoring.ranking import RankingWeights
from precall.server.mapping.memories import memory_message
from precall.server.mapping.values import moment, seconds_of

MAX_QUERY_CHARACTERS: Final = 20_000
_IS_ACCURATE: Final = {
    retrieval_pb2.SEARCH_MODE_UNSPECIFIED: False,
    retrieval_pb2.SEARCH_MODE_FAST: False,
    retrieval_pb2.SEARCH_MODE_ACCURATE: True,
}


def query_text(text: str, field: str = "query") -> str:
    """Raises InvalidInput for a text that nothing can be searched with."""
    if not text.strip():
        raise InvalidInput(f"{field} is empty: say what to look for")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(f"{field} has {len(text)} characters, at most {MAX_QUERY_CHARACTERS}")
    return text


def is_accurate(request: retrieval_pb2.SearchRequest) -> bool:
    """Whether the mode is ACCURATE. Raises InvalidInput for one that nobody knows."""
    accurate = _IS_ACCURATE.get(request.mode)
    if accurate is None:
        raise InvalidInput(f"mode has the unknown value {request.mode}")
    return accurate


def asked_moment(request: retrieval_pb2.SearchRequest) -> datetime | None:
    """The moment whose ladder is asked for; None: today's. Raises InvalidInput."""
    if not request.HasField("as_of"):
        return None
    if request.HasField("ranked_at"):
        raise InvalidInput("as_of is the moment that recency is counted from: leave ranked_at unset")
    return moment(request.as_of, "as_of")


def ranking_weights(request: retrieval_pb2.SearchRequest) -> RankingWeights:
    """The request's weights as they are, zeros included; the defaults if it has none. Raises InvalidInput."""
    if not request.HasField("weights"):
        return RankingWeights()
    given = request.weights
    half_life = (
        seconds_of(given.half_life) if given.HasField("half_life") else RankingWeights().half_life_seconds
    )
    try:
        return RankingWeights(given.relevance, given.importance, given.recency, half_life)
    except ValueError as error:
        raise InvalidInput(f"weights: {error}") from error


def ranked_at(request: retrieval_pb2.SearchRequest, *, as_of: datetime | None, now: float) -> float:
    """Unix seconds that recency is counted from. Raises InvalidInput."""
    if as_of is not None:
        return as_of.timestamp()
    if request.HasField("ranked_at"):
        return moment(request.ranked_at, "ranked_at").timestamp()
    return now


def scored_memories(hits: Iterable[Hit], ladder: Ladder) -> list[retrieval_pb2.ScoredMemory]:
    return [
        retrieval_pb2.ScoredMemory(
            memory=memory_message(hit.memory, ladder),
            score=_score_parts(hit),
            rung=ladder.level_of(hit.memory.rung),
            legs=sorted(leg.value for leg in hit.legs),
        )
        for hit in hits
    ]


def _score_parts(hit: Hit) -> common_pb2.ScoreParts:
    score = hit.score
    return common_pb2.ScoreParts(
        total=score.total,
        relevance=score.relevance,
        importance=score.importance,
        recency=score.recency,
        dense=score.dense,
        keyword=score.keyword,
        rerank=hit.rerank,
    )
