"""ACCURATE search: the best of FAST search, for a query and for each of its parts, judged by the reranker.

The reranker's score and the fused relevance that FAST gave are mixed into the relevance of the result; its
importance and recency count as they do in FAST. A memory that several parts found has the best of its totals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from precall.engine.batching.work import WorkClass
from precall.engine.errors import ConfigurationError, InvalidInput, NumericsError
from precall.engine.index.partition import Partition
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.reranking import Reranking, RerankQueue
from precall.engine.retrieval.search import search, weigh_terms
from precall.scoring.query_terms import QueryTerms

DEFAULT_CANDIDATES: Final = 100

MOST_READ_CHARACTERS: Final = 16_000
"""Of a memory: some 3,000 tokens. A hundred memories and the longest query fit into an idle queue so."""


@dataclass(frozen=True)
class AccurateSettings:
    """``candidates``: memories that the reranker reads for one search, the query and its parts together.
    Where more results are asked for, it reads more: as many for each.
    """

    candidates: int = DEFAULT_CANDIDATES

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise ConfigurationError(f"accurate.candidates must be at least 1, not {self.candidates}")


@dataclass(frozen=True, slots=True)
class AskedText:
    """What the reranker reads, and what the partitions are searched with."""

    text: str
    query: Query


@dataclass(frozen=True, slots=True)
class AccurateAnswer:
    """The hits, best first, and where the reranker's time went, the query and its parts together."""

    hits: list[Hit]
    tokenize_seconds: float
    queue_seconds: float
    device_seconds: float


class AccurateSearch:
    """Searches of any tenant, through the one queue before the reranker."""

    def __init__(self, queue: RerankQueue, settings: AccurateSettings | None = None) -> None:
        self._queue = queue
        self._settings = settings if settings is not None else AccurateSettings()

    async def search(
        self,
        partitions: Sequence[Partition],
        asked: Sequence[AskedText],
        *,
        tenant: str,
        deadline: float | None,
    ) -> AccurateAnswer:
        """The best ``limit`` of the first query: the whole one, whose parts follow it.

        ``deadline``: monotonic seconds. It never answers less well than was asked: raises DeadlineExceeded,
        Overloaded, Draining, ModelUnavailable, NumericsError, and InvalidInput (TextTooLong) for a text that
        the reranker cannot read. A memory that it cannot read, or has no finite score for, counts 0 with it:
        the others are ranked.
        """
        limit = asked[0].query.limit
        share = -(-self._settings.candidates // len(asked))
        found = [await search(partitions, replace(each.query, limit=max(limit, share))) for each in asked]
        rerankings: list[Reranking] = []
        judged: list[Hit] = []
        for each, hits in zip(asked, found, strict=True):
            reranking = await self._queue.rerank(
                each.text,
                [hit.memory.text[:MOST_READ_CHARACTERS] for hit in hits],
                tenant=tenant,
                work_class=WorkClass.CONVERSATION,
                truncate=True,
                deadline=deadline,
                term_weights=weigh_terms(partitions, each.query.terms),
            )
            rerankings.append(reranking)
            scores = _scores(reranking)
            reranker_share = self._queue.search_share(QueryTerms.of(each.text))
            judged += [
                _judged(hit, score, each.query, reranker_share)
                for hit, score in zip(hits, scores, strict=True)
            ]
        return AccurateAnswer(
            _standing(partitions, _ordered(judged), limit),
            sum(reranking.tokenize_seconds for reranking in rerankings),
            sum(reranking.queue_seconds for reranking in rerankings),
            sum(reranking.device_seconds for reranking in rerankings),
        )


def _judged(hit: Hit, rerank: float, query: Query, share: float) -> Hit:
    fused = hit.score.relevance
    relevance = (1 - share) * fused + share * rerank
    total = hit.score.total + query.weights.relevance * (relevance - fused)
    return replace(hit, score=replace(hit.score, relevance=relevance, total=total), rerank=rerank)


def _scores(reranking: Reranking) -> list[float]:
    """A score a document, in order; 0 for one that the reranker cannot read or has no finite score for.

    Raises the error of a pass that failed, and that of a model which has a finite score for none.
    """
    documents = reranking.documents
    is_any_scored = any(document.score is not None for document in documents)
    for document in documents:
        # What is wrong with the query was raised for all of them: an InvalidInput is the document's own.
        is_own_fault = isinstance(document.error, InvalidInput) or (
            isinstance(document.error, NumericsError) and is_any_scored
        )
        if document.error is not None and not is_own_fault:
            raise document.error
    return [0.0 if document.score is None else document.score for document in documents]


def _ordered(judged: Iterable[Hit]) -> list[Hit]:
    """Each memory once, with the best of its totals and every leg that found it; in the order of `rank`."""
    best: dict[str, Hit] = {}
    for hit in judged:
        other = best.get(hit.memory.id)
        if other is not None:
            winner = hit if hit.score.total > other.score.total else other
            hit = replace(winner, legs=hit.legs | other.legs)
        best[hit.memory.id] = hit
    return sorted(
        best.values(),
        key=lambda hit: (
            -hit.score.total,
            -hit.memory.rung.depth,
            -hit.memory.event_time.timestamp(),
            hit.memory.id,
        ),
    )


def _standing(partitions: Sequence[Partition], hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Those that no write has taken away while the reranker read."""
    standing = [hit for hit in hits if any(hit.memory.id in partition for partition in partitions)]
    return standing[:limit]
