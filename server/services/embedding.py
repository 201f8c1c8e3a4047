"""The model side of the wire."""

from collections.abc import AsyncIterator
from typing import Any, Final

import grpc.aio
import numpy as np

from precall.engine.batching.outcome import EmbeddingOutcome, EmbeddingTimes
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.card import Pooling
from precall.engine.encoding.encoder import TextRole
from precall.engine.engine import Engine
from precall.engine.errors import Draining, InvalidInput, ModelUnavailable, NotSupported
from precall.engine.retrieval.reranking import RerankQueue
from precall.proto import common_pb2, embedding_pb2
from precall.proto.embedding_pb2_grpc import EmbeddingServiceServicer
from precall.server.auth import Principal
from precall.server.call import current_call
from precall.server.encoder_files import PublishedEncoder
from precall.server.light_encoders import LightEncoders
from precall.server.mapping.values import enumerated, stage_timings, token_usage
from precall.server.mapping.vectors import vector_dtype, vectors_message
from precall.server.model import ServedModel
from precall.server.services.reranking import RerankMethod

Context = grpc.aio.ServicerContext[Any, Any]

_ROLES: Final[dict[int, TextRole]] = {
    embedding_pb2.TEXT_ROLE_QUERY: TextRole.QUERY,
    embedding_pb2.TEXT_ROLE_DOCUMENT: TextRole.DOCUMENT,
}
_WORK_CLASSES: Final[dict[int, WorkClass]] = {
    embedding_pb2.WORK_CLASS_CONVERSATION: WorkClass.CONVERSATION,
    embedding_pb2.WORK_CLASS_PREFETCH: WorkClass.PREFETCH,
    embedding_pb2.WORK_CLASS_INGEST: WorkClass.INGEST,
}
_DEFAULT_CLASSES: Final = {TextRole.QUERY: WorkClass.CONVERSATION, TextRole.DOCUMENT: WorkClass.INGEST}
_POOLINGS: Final = {
    Pooling.MEAN: embedding_pb2.POOLING_MEAN,
    Pooling.LAST_TOKEN: embedding_pb2.POOLING_LAST_TOKEN,
    Pooling.CLS: embedding_pb2.POOLING_CLS,
}


class EmbeddingService(EmbeddingServiceServicer):
    """Embeds, and hands out the model's card and the encoder for clients."""

    def __init__(
        self,
        engine: Engine,
        model: ServedModel,
        reranking: RerankQueue | None,
        light: LightEncoders,
        *,
        max_batch: int,
    ) -> None:
        self._engine = engine
        self._model = model
        self._light = light
        self._max_batch = max_batch
        self._reranking = None if reranking is None else RerankMethod(reranking, max_batch=max_batch)

    async def Embed(
        self, request: embedding_pb2.EmbedRequest, context: Context
    ) -> embedding_pb2.EmbedResponse:
        call = current_call()
        self._check_texts(request)
        served = await self._answering(request, call.principal)
        card = served.card.cut_to(request.dimension or served.card.dimension)
        role = _ROLES.get(request.role)
        if role is None:
            raise InvalidInput("role must be QUERY or DOCUMENT: models prompt the two differently")
        work_class = (
            enumerated(request.work_class, _WORK_CLASSES, "work_class")
            if request.work_class
            else _DEFAULT_CLASSES[role]
        )
        outcomes = await self._engine.models.named(served.card.fingerprint).batcher.embed(
            request.texts,
            role,
            tenant=call.principal.tenant,
            work_class=work_class,
            deadline=call.deadline,
            truncate=request.truncate,
            instruction=request.instruction or None,
        )
        for outcome in outcomes:
            if isinstance(outcome.error, Draining):
                raise outcome.error  # the whole request is for another server
        outcomes = [outcome.cut_to(card.dimension) for outcome in outcomes]
        times = EmbeddingTimes.of(outcomes)
        for name in ("tokenize", "queue", "device"):
            call.note(name, getattr(times, f"{name}_seconds"))
        zero = np.zeros(card.dimension, np.float32)
        return embedding_pb2.EmbedResponse(
            vectors=vectors_message(
                [zero if outcome.vector is None else outcome.vector for outcome in outcomes],
                card.fingerprint,
                card.dimension,
                request.format,
            ),
            usage=[token_usage(outcome.usage) for outcome in outcomes],
            errors=_item_errors(outcomes),
            timings=stage_timings(call.finished_stages()),
        )

    async def Rerank(
        self, request: embedding_pb2.RerankRequest, context: Context
    ) -> embedding_pb2.RerankResponse:
        if self._reranking is None:
            raise NotSupported(
                "this server has no reranker: use Search, or start it with the setting reranker"
            )
        return await self._reranking.answer(request, current_call())

    async def GetModel(
        self, request: embedding_pb2.GetModelRequest, context: Context
    ) -> embedding_pb2.ModelCard:
        served = await self._serving(current_call().principal)
        card = served.card
        return embedding_pb2.ModelCard(
            name=card.name,
            revision=card.revision,
            weights_sha256=card.weights_sha256,
            dimension=card.dimension,
            max_tokens=card.max_tokens,
            pooling=_POOLINGS[card.pooling],
            normalized=card.normalized,
            query_prompt=card.query_prompt,
            document_prompt=card.document_prompt,
            matryoshka_dimensions=card.matryoshka_dimensions,
            fingerprint=card.fingerprint,
            runtime=served.runtime,
            scripts=card.scripts,
        )

    async def GetClientEncoder(
        self, request: embedding_pb2.GetClientEncoderRequest, context: Context
    ) -> AsyncIterator[embedding_pb2.ClientEncoderChunk]:
        if request.model_fingerprint:
            served = self._model.of(request.model_fingerprint)
        else:
            served = await self._serving(current_call().principal)
        published = self._published(served)
        yield embedding_pb2.ClientEncoderChunk(manifest=published.manifest())
        try:
            async for chunk in published.chunks():
                yield embedding_pb2.ClientEncoderChunk(data=chunk)
        except ModelUnavailable:
            self._light.forget(published.model_fingerprint)
            raise

    def _published(self, served: ServedModel) -> PublishedEncoder:
        """Raises NotSupported when clients have to leave embedding to the server, ModelUnavailable when they
        have to for now.
        """
        card = served.card
        if served.exported is not None:
            return PublishedEncoder.exported(card, served.exported, served.agreement)
        return PublishedEncoder.light(card, self._light.of(card))

    async def _serving(self, principal: Principal) -> ServedModel:
        """What serves the caller's tenant; for a key of the server, which has none, the first model.

        Where there is but one, the tenant's file is not asked. Raises what opening a tenant raises.
        """
        if self._model.next is None or principal.tenant_id is None:
            return self._model
        tenant = await self._engine.tenant(principal.tenant_id)
        return self._model.of(tenant.model().fingerprint)

    async def _answering(self, request: embedding_pb2.EmbedRequest, principal: Principal) -> ServedModel:
        """The model that is asked for, whichever of this server's serves the tenant. Raises
        FingerprintMismatch.

        Either names it: its own fingerprint, or that of the vectors to be answered, which may be shorter.
        """
        if not request.model_fingerprint:
            return await self._serving(principal)
        for served in self._model.encoders:
            if request.model_fingerprint == served.card.fingerprint or (
                request.dimension in served.card.matryoshka_dimensions
                and request.model_fingerprint == served.card.cut_to(request.dimension).fingerprint
            ):
                return served
        return self._model.of(request.model_fingerprint)

    def _check_texts(self, request: embedding_pb2.EmbedRequest) -> None:
        """Raises InvalidInput, NotSupported."""
        if not request.texts:
            raise InvalidInput("texts is empty: send at least one")
        if len(request.texts) > self._max_batch:
            raise InvalidInput(f"{len(request.texts)} texts, at most {self._max_batch}: split the request")
        vector_dtype(request.format, "format")


def _item_errors(outcomes: list[EmbeddingOutcome]) -> list[common_pb2.ItemError]:
    return [
        common_pb2.ItemError(position=position, reason=outcome.error.reason, message=outcome.error.message)
        for position, outcome in enumerate(outcomes)
        if outcome.error is not None
    ]
