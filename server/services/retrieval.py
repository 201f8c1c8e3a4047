"""Searching from the server."""

import time
from dataclasses import dataclass
from typing import Any

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole, TokenUsage
from precall.engine.engine import Engine
from precall.engine.retrieval.query import Query
from precall.proto import retrieval_pb2
from precall.proto.retrieval_pb2_grpc import RetrievalServiceServicer
from precall.scoring.terms import analyze
from precall.server.call import Call, current_call
from precall.server.mapping.search import (
    query_text,
    ranked_at,
    ranking_weights,
    require_supported_search,
    scored_memories,
)
from precall.server.mapping.values import count, rung_of, stage_timings, token_usage
from precall.server.mapping.vectors import single_vector

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class _EmbeddedQuery:
    """``usage`` is None where the caller brought the vector."""

    vector: NDArray[np.float32]
    usage: TokenUsage | None


class RetrievalService(RetrievalServiceServicer):
    """Answers what a read falls back on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def Search(
        self, request: retrieval_pb2.SearchRequest, context: Context
    ) -> retrieval_pb2.SearchResponse:
        call = current_call()
        require_supported_search(request)
        text = query_text(request.query)
        limit = count(request.limit, "limit", default=10)
        weights = ranking_weights(request)
        now = ranked_at(request, now=self._engine.clock.wall())
        tenant = await self._engine.tenant(call.principal.tenant)
        rung = rung_of(request.scope, tenant.ladder)
        call.principal.require_read(rung)

        embedded = await self._embed(call, request, text)
        begin = time.perf_counter()
        query = Query(embedded.vector, analyze(text), now, limit, weights)
        found = await tenant.search(rung, query, min_version=request.min_version)
        call.note("search", time.perf_counter() - begin)

        return retrieval_pb2.SearchResponse(
            results=scored_memories(found.hits, tenant.ladder),
            version=found.version,
            model_fingerprint=self._engine.encoder.card.fingerprint,
            usage=token_usage(embedded.usage),
            timings=stage_timings(call.finished_stages()),
            visible=found.visible,
        )

    async def _embed(self, call: Call, request: retrieval_pb2.SearchRequest, text: str) -> _EmbeddedQuery:
        if request.HasField("query_vector"):
            vector = single_vector(request.query_vector, self._engine.encoder.card, "query_vector")
            return _EmbeddedQuery(vector, None)
        (outcome,) = await self._engine.batcher.embed(
            [text],
            TextRole.QUERY,
            tenant=call.principal.tenant,
            work_class=WorkClass.CONVERSATION,
            deadline=call.deadline,
            truncate=request.truncate,
        )
        call.note("queue", outcome.queue_seconds)
        call.note("tokenize", outcome.tokenize_seconds)
        call.note("device", outcome.device_seconds)
        return _EmbeddedQuery(outcome.require_vector(), outcome.usage)
