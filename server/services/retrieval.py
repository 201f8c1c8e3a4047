"""Searching from the server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.outcome import EmbeddingTimes
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole, TokenUsage
from precall.engine.engine import Engine
from precall.engine.errors import NotSupported
from precall.engine.index.partition import Partition
from precall.engine.retrieval.accurate import AccurateSearch, AskedText
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.search import search
from precall.engine.retrieval.splitting import split_query
from precall.proto import retrieval_pb2
from precall.proto.retrieval_pb2_grpc import RetrievalServiceServicer
from precall.scoring.fusion import keyword_share
from precall.scoring.query_terms import QueryTerms
from precall.server.call import Call, current_call
from precall.server.mapping.filters import filter_of
from precall.server.mapping.search import (
    asked_moment,
    is_accurate,
    query_text,
    ranked_at,
    ranking_weights,
    scored_memories,
)
from precall.server.mapping.values import count, rung_of, stage_timings, token_usage
from precall.server.mapping.vectors import single_vector

Context = grpc.aio.ServicerContext[Any, Any]

_NO_VECTOR: Final = np.empty(0, np.float32)
_RERANKING: Final = ("rerank_tokenize", "rerank_queue", "rerank_device")


@dataclass(frozen=True, slots=True)
class _EmbeddedTexts:
    """``vectors``: of the query and of each of its parts. ``usage``: the query's, None where the caller
    brought its vector.
    """

    vectors: Sequence[NDArray[np.float32]]
    usage: TokenUsage | None


class RetrievalService(RetrievalServiceServicer):
    """Answers what a read falls back on, and what is asked of the server alone."""

    def __init__(self, engine: Engine, accurate: AccurateSearch | None = None) -> None:
        """``accurate``: None where the server has no reranker."""
        self._engine = engine
        self._accurate = accurate

    async def Search(
        self, request: retrieval_pb2.SearchRequest, context: Context
    ) -> retrieval_pb2.SearchResponse:
        call = current_call()
        accurate = self._accurate_search(request)
        text = query_text(request.query)
        as_of = asked_moment(request)
        query = Query(
            _NO_VECTOR,
            (),
            ranked_at(request, as_of=as_of, now=self._engine.clock.wall()),
            count(request.limit, "limit", default=10),
            ranking_weights(request),
            filter=filter_of(request.filter),
        )
        tenant = await self._engine.tenant(call.principal.tenant)
        rung = rung_of(request.scope, tenant.ladder)
        call.principal.require_read(rung)

        parts = () if accurate is None else split_query(text)
        embedded = await self._embed(call, request, text, parts)
        asked = [
            AskedText(each, self._about(query, each, vector))
            for each, vector in zip((text, *parts), embedded.vectors, strict=True)
        ]
        method = search if accurate is None else partial(_accurately, accurate, asked, call)
        begin = time.perf_counter()
        found = await tenant.search(
            rung, asked[0].query, min_version=request.min_version, as_of=as_of, method=method
        )
        took = time.perf_counter() - begin
        call.note("search", took - sum(stage.seconds for stage in call.stages if stage.name in _RERANKING))

        return retrieval_pb2.SearchResponse(
            results=scored_memories(found.hits, tenant.ladder),
            version=found.version,
            model_fingerprint=self._engine.encoder.card.fingerprint,
            usage=token_usage(embedded.usage),
            timings=stage_timings(call.finished_stages()),
            visible=found.visible,
            parts=parts,
        )

    def _accurate_search(self, request: retrieval_pb2.SearchRequest) -> AccurateSearch | None:
        """What answers an ACCURATE request; None for a FAST one. Raises NotSupported, InvalidInput."""
        if not is_accurate(request):
            return None
        if self._accurate is None:
            raise NotSupported(
                "mode ACCURATE needs a reranker: start the server with the setting reranker, or search FAST"
            )
        return self._accurate

    def _about(self, query: Query, text: str, vector: NDArray[np.float32]) -> Query:
        """The same request with what this text is searched by."""
        terms = QueryTerms.of(text)
        share = keyword_share(terms, self._engine.encoder.card.scripts)
        return replace(query, vector=vector, terms=terms.terms, keyword_share=share)

    async def _embed(
        self, call: Call, request: retrieval_pb2.SearchRequest, text: str, parts: Sequence[str]
    ) -> _EmbeddedTexts:
        given: list[NDArray[np.float32]] = []
        if request.HasField("query_vector"):
            given.append(single_vector(request.query_vector, self._engine.encoder.card, "query_vector"))
        texts = [*parts] if given else [text, *parts]
        if not texts:
            return _EmbeddedTexts(given, None)
        outcomes = await self._engine.batcher.embed(
            texts,
            TextRole.QUERY,
            tenant=call.principal.tenant,
            work_class=WorkClass.CONVERSATION,
            deadline=call.deadline,
            truncate=request.truncate,
        )
        times = EmbeddingTimes.of(outcomes)
        for name in ("queue", "tokenize", "device"):
            call.note(name, getattr(times, f"{name}_seconds"))
        vectors = [*given, *(outcome.require_vector() for outcome in outcomes)]
        return _EmbeddedTexts(vectors, None if given else outcomes[0].usage)


async def _accurately(
    accurate: AccurateSearch,
    asked: Sequence[AskedText],
    call: Call,
    partitions: Sequence[Partition],
    query: Query,
) -> list[Hit]:
    """A `SearchMethod` once its first three arguments are bound."""
    answer = await accurate.search(partitions, asked, tenant=call.principal.tenant, deadline=call.deadline)
    seconds = (answer.tokenize_seconds, answer.queue_seconds, answer.device_seconds)
    for stage, took in zip(_RERANKING, seconds, strict=True):
        call.note(stage, took)
    return answer.hits
