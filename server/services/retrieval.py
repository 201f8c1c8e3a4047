"""Searching from the server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from precall.engine.batching.outcome import EmbeddingTimes
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import TextRole, TokenUsage
from precall.engine.engine import Engine
from precall.engine.errors import ModelChanged, NotSupported
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Rung
from precall.engine.retrieval.accurate import AccurateSearch, AskedText
from precall.engine.retrieval.query import Hit, Query
from precall.engine.retrieval.search import search
from precall.engine.retrieval.splitting import split_query
from precall.engine.tenant import Found, Tenant
from precall.engine.tenant_model import TenantModel
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
class _Asked:
    """A request that was checked. ``query``: all of it but what its text says. ``parts``: of the text, which
    are searched as well. ``accurate``: what answers it; None for a FAST one.
    """

    request: retrieval_pb2.SearchRequest
    text: str
    parts: Sequence[str]
    query: Query
    rung: Rung
    as_of: datetime | None
    accurate: AccurateSearch | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """``usage``: of the query's text, None where the caller brought its vector."""

    found: Found
    model_fingerprint: str
    usage: TokenUsage | None


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
        answer = await self._answer(call, tenant, _Asked(request, text, parts, query, rung, as_of, accurate))
        return retrieval_pb2.SearchResponse(
            results=scored_memories(answer.found.hits, tenant.ladder),
            version=answer.found.version,
            model_fingerprint=answer.model_fingerprint,
            usage=token_usage(answer.usage),
            timings=stage_timings(call.finished_stages()),
            visible=answer.found.visible,
            parts=parts,
        )

    async def _answer(self, call: Call, tenant: Tenant, asked: _Asked) -> _Answer:
        """By the model of the vector that came with the request, else by the one that serves the tenant.

        A text whose model the tenant gives up meanwhile is embedded again, by the other one.
        """
        while True:
            model = tenant.model(asked.request.query_vector.model_fingerprint)
            try:
                return await self._answer_by(model, call, tenant, asked)
            except ModelChanged:
                if asked.request.HasField("query_vector"):
                    raise  # its maker has the text, and can make another one

    async def _answer_by(self, model: TenantModel, call: Call, tenant: Tenant, asked: _Asked) -> _Answer:
        """Raises ModelChanged when the tenant gave the model up before the answer was there."""
        embedded = await self._embed(call, model, asked)
        texts = [
            AskedText(text, _about(asked.query, text, vector, model.card))
            for text, vector in zip((asked.text, *asked.parts), embedded.vectors, strict=True)
        ]
        method = search if asked.accurate is None else partial(_accurately, asked.accurate, texts, call)
        begin = time.perf_counter()
        found = await tenant.search(
            asked.rung,
            texts[0].query,
            min_version=asked.request.min_version,
            as_of=asked.as_of,
            method=method,
            model=model,
        )
        took = time.perf_counter() - begin
        call.note("search", took - sum(stage.seconds for stage in call.stages if stage.name in _RERANKING))
        return _Answer(found, model.fingerprint, embedded.usage)

    def _accurate_search(self, request: retrieval_pb2.SearchRequest) -> AccurateSearch | None:
        """What answers an ACCURATE request; None for a FAST one. Raises NotSupported, InvalidInput."""
        if not is_accurate(request):
            return None
        if self._accurate is None:
            raise NotSupported(
                "mode ACCURATE needs a reranker: start the server with the setting reranker, or search FAST"
            )
        return self._accurate

    async def _embed(self, call: Call, model: TenantModel, asked: _Asked) -> _EmbeddedTexts:
        given: list[NDArray[np.float32]] = []
        if asked.request.HasField("query_vector"):
            given.append(single_vector(asked.request.query_vector, model.card, "query_vector"))
        texts = [*asked.parts] if given else [asked.text, *asked.parts]
        if not texts:
            return _EmbeddedTexts(given, None)
        outcomes = await model.batcher.embed(
            texts,
            TextRole.QUERY,
            tenant=call.principal.tenant,
            work_class=WorkClass.CONVERSATION,
            deadline=call.deadline,
            truncate=asked.request.truncate,
        )
        times = EmbeddingTimes.of(outcomes)
        for name in ("queue", "tokenize", "device"):
            call.note(name, getattr(times, f"{name}_seconds"))
        vectors = [*given, *(outcome.require_vector() for outcome in outcomes)]
        return _EmbeddedTexts(vectors, None if given else outcomes[0].usage)


def _about(query: Query, text: str, vector: NDArray[np.float32], card: ModelCard) -> Query:
    """The same request with what this text is searched by."""
    terms = QueryTerms.of(text)
    share = keyword_share(terms, card.scripts)
    return replace(query, vector=vector, terms=terms.terms, keyword_share=share)


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
