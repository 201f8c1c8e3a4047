"""`EmbeddingService/Rerank`, on a server that has a reranker."""

import numpy as np

from precall.engine.batching.work import WorkClass
from precall.engine.errors import FingerprintMismatch, InvalidInput
from precall.engine.retrieval.reranking import Reranking, RerankQueue
from precall.proto import common_pb2, embedding_pb2
from precall.scoring.vectors import FLOAT32
from precall.server.call import Call
from precall.server.mapping.values import stage_timings, token_usage


class RerankMethod:
    """Checks a request, has it scored, and answers on the wire."""

    def __init__(self, queue: RerankQueue, *, max_batch: int) -> None:
        self._queue = queue
        self._max_batch = max_batch

    async def answer(self, request: embedding_pb2.RerankRequest, call: Call) -> embedding_pb2.RerankResponse:
        """Raises InvalidInput, TextTooLong (the query), NotSupported (an instruction), FingerprintMismatch,
        Overloaded, DeadlineExceeded, Draining.
        """
        self._check(request)
        reranking = await self._queue.rerank(
            request.query,
            request.documents,
            tenant=call.principal.tenant,
            work_class=WorkClass.INGEST,
            instruction=request.instruction or None,
            truncate=request.truncate,
            deadline=call.deadline,
        )
        for name in ("tokenize", "queue", "device"):
            call.note(name, getattr(reranking, f"{name}_seconds"))
        scores = [0.0 if document.score is None else document.score for document in reranking.documents]
        return embedding_pb2.RerankResponse(
            scores=np.array(scores, FLOAT32).tobytes(),
            model_fingerprint=self._queue.card.fingerprint,
            usage=[token_usage(document.usage) for document in reranking.documents],
            errors=_item_errors(reranking),
            timings=stage_timings(call.finished_stages()),
        )

    def _check(self, request: embedding_pb2.RerankRequest) -> None:
        if not request.query.strip():
            raise InvalidInput("query is empty: say what the documents are to be compared with")
        if not request.documents:
            raise InvalidInput("documents is empty: send at least one")
        if len(request.documents) > self._max_batch:
            raise InvalidInput(
                f"{len(request.documents)} documents, at most {self._max_batch}: split the request"
            )
        card = self._queue.card
        if request.model_fingerprint not in ("", card.fingerprint):
            raise FingerprintMismatch(
                f"model_fingerprint is {request.model_fingerprint}, the reranker here is {card.fingerprint}",
                metadata={"model_fingerprint": card.fingerprint},
            )


def _item_errors(reranking: Reranking) -> list[common_pb2.ItemError]:
    return [
        common_pb2.ItemError(position=position, reason=document.error.reason, message=document.error.message)
        for position, document in enumerate(reranking.documents)
        if document.error is not None
    ]
