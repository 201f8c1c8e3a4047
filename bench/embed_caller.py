"""One caller of `Embed` over gRPC: requests ready as bytes, answers reduced to what a measurement needs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import grpc
import grpc.aio
import numpy as np
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from numpy.typing import NDArray

from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole
from precall.proto import common_pb2, embedding_pb2

_METHOD: Final = "/precall.v1.EmbeddingService/Embed"
_ROLES: Final = {
    TextRole.QUERY: embedding_pb2.TEXT_ROLE_QUERY,
    TextRole.DOCUMENT: embedding_pb2.TEXT_ROLE_DOCUMENT,
}
_CLASSES: Final = {
    WorkClass.CONVERSATION: embedding_pb2.WORK_CLASS_CONVERSATION,
    WorkClass.PREFETCH: embedding_pb2.WORK_CLASS_PREFETCH,
    WorkClass.INGEST: embedding_pb2.WORK_CLASS_INGEST,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended. ``seconds`` count from when it was due, not from when it was sent.

    ``is_typed``: the call succeeded, or its error says its kind and, if it is a refusal, when to come back.
    """

    code: grpc.StatusCode
    seconds: float
    texts: int
    is_typed: bool

    @property
    def is_ok(self) -> bool:
        return self.code is grpc.StatusCode.OK


def embed_request(texts: Sequence[str], role: TextRole, work_class: WorkClass) -> embedding_pb2.EmbedRequest:
    """Float32 vectors, texts over the model's limit cut."""
    return embedding_pb2.EmbedRequest(
        texts=texts,
        role=_ROLES[role],
        work_class=_CLASSES[work_class],
        format=common_pb2.VECTOR_FORMAT_FLOAT32,
        truncate=True,
    )


def vectors_of(response: embedding_pb2.EmbedResponse) -> NDArray[np.float32]:
    """Rows of a response of float32 vectors, shape ``(n, dimension)``. Raises ValueError if a text failed."""
    if response.errors:
        raise ValueError(f"text {response.errors[0].position} was not embedded: {response.errors[0].message}")
    shape = (response.vectors.count, response.vectors.dimension)
    return np.frombuffer(response.vectors.data, dtype="<f4").reshape(shape)


class EmbedCaller:
    """Calls on one channel with one key. Leave it with ``async with``."""

    def __init__(self, target: str, api_key: str) -> None:
        self._channel = grpc.aio.insecure_channel(target)
        self._metadata = (("authorization", f"Bearer {api_key}"),)
        # Bytes out, so that a flood's requests are made beforehand and cost the caller's loop nothing.
        self._call: grpc.aio.UnaryUnaryMultiCallable[bytes, embedding_pb2.EmbedResponse] = (
            self._channel.unary_unary(_METHOD, None, embedding_pb2.EmbedResponse.FromString)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def embed(
        self, texts: Sequence[str], role: TextRole, work_class: WorkClass
    ) -> embedding_pb2.EmbedResponse:
        """Raises ``grpc.aio.AioRpcError``."""
        body = embed_request(texts, role, work_class).SerializeToString()
        response: embedding_pb2.EmbedResponse = await self._call(body, metadata=self._metadata)
        return response

    async def answer(self, body: bytes, texts: int, *, due: float, timeout: float) -> Answer:
        """Send a request of ``texts`` texts and wait for its end, whatever that is; ``due`` is on
        ``time.perf_counter``, ``timeout`` in seconds.
        """
        code, typed = grpc.StatusCode.OK, True
        try:
            response = await self._call(body, metadata=self._metadata, timeout=timeout)
            typed = len(response.usage) == texts
        except grpc.aio.AioRpcError as error:
            code, typed = error.code(), is_typed(error)
        return Answer(code, time.perf_counter() - due, texts, typed)


def is_typed(error: grpc.aio.AioRpcError) -> bool:
    """Whether an error names its kind and, as a refusal, says when to come back."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return True  # the caller's own clock ended it; nothing of the server's is needed to know why
    trailing = dict(error.trailing_metadata() or ())
    status = Status.FromString(trailing.get("grpc-status-details-bin", b""))
    info, retry = ErrorInfo(), RetryInfo()
    named = any(detail.Unpack(info) for detail in status.details) and bool(info.reason)
    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        return named
    told_when = (
        any(detail.Unpack(retry) for detail in status.details) and retry.retry_delay.ToNanoseconds() > 0
    )
    return named and told_when and int(trailing.get("grpc-retry-pushback-ms", "0")) > 0
