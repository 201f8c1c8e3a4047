"""Sends a mixed load over gRPC, as clients that cancel, come late, ask too much and obey refusals."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import numpy as np

from precall.bench.answer_ledger import CANCELLED, Answer, AnswerLedger
from precall.bench.mixed_workload import Fate, MixedRequest
from precall.client import AsyncClient, ClientOptions, LocalEncoding
from precall.client.errors import Overloaded, PrecallError
from precall.client.methods import Method
from precall.client.transport import Transport
from precall.engine.batching.work import WorkClass
from precall.proto import common_pb2, embedding_pb2
from precall.scoring.vectors import FLOAT32, from_bytes

EMBED: Final = Method("EmbeddingService/Embed", embedding_pb2.EmbedRequest, embedding_pb2.EmbedResponse)

_WORK_CLASSES: Final = {
    WorkClass.CONVERSATION: embedding_pb2.WORK_CLASS_CONVERSATION,
    WorkClass.PREFETCH: embedding_pb2.WORK_CLASS_PREFETCH,
    WorkClass.INGEST: embedding_pb2.WORK_CLASS_INGEST,
}
_PATIENCE_SECONDS: Final = 120.0
_LATEST_SECONDS: Final = 0.02
"""A late request has up to so much time left, a cancelled one is given up after so much."""


class MixedLoad:
    """Callers, each with one request at a time, that take their requests from one stream.

    ``refusals`` counts RESOURCE_EXHAUSTED: typed answers, after which a caller waits as it was told and asks
    again. One that does not say how long to wait is a fault.
    """

    def __init__(self, transports: Sequence[Transport], ledger: AnswerLedger, *, callers: int) -> None:
        """``transports`` are open, one a tenant; the callers share them evenly."""
        self._transports = tuple(transports)
        self._ledger = ledger
        self._callers = callers
        self.refusals = 0

    async def send(self, requests: Iterator[MixedRequest]) -> None:
        """All of ``requests``; returns when the last one has its answer."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._callers):
                transport = self._transports[number % len(self._transports)]
                group.create_task(self._work(transport, requests))

    async def _work(self, transport: Transport, requests: Iterator[MixedRequest]) -> None:
        for request in requests:
            asking = asyncio.ensure_future(self._ask(transport, request))
            if request.fate is Fate.CANCELLED:
                await asyncio.wait({asking}, timeout=request.chance * _LATEST_SECONDS)
                asking.cancel()
            try:
                self._ledger.close(request, await asking)
            except PrecallError as error:
                self._ledger.close_whole(request, error.reason)
            except asyncio.CancelledError:
                if not asking.cancelled():
                    raise
                self._ledger.close_whole(request, CANCELLED)

    async def _ask(self, transport: Transport, request: MixedRequest) -> list[Answer]:
        message = embedding_pb2.EmbedRequest(
            texts=request.texts,
            role=embedding_pb2.TEXT_ROLE_DOCUMENT,
            format=common_pb2.VECTOR_FORMAT_FLOAT32,
            work_class=_WORK_CLASSES[request.work_class],
        )
        late = request.fate is Fate.EXPIRED
        deadline = request.chance * _LATEST_SECONDS if late else _PATIENCE_SECONDS
        while True:
            try:
                reply = await transport.call(EMBED, message, deadline_seconds=deadline, retry=False)
                return _answers(reply)
            except Overloaded as refusal:
                self.refusals += 1
                if refusal.retry_after_seconds is None:
                    raise
                await asyncio.sleep(refusal.retry_after_seconds)


@asynccontextmanager
async def opened_transports(
    target: str, admin_key: str, tenants: Sequence[str]
) -> AsyncIterator[Sequence[Transport]]:
    """Makes ``tenants`` on the server at ``target``, and an open transport with a key for each."""
    options = ClientOptions(local_encoding=LocalEncoding.OFF)
    async with AsyncExitStack() as stack:
        transports = []
        async with AsyncClient(target, api_key=admin_key, options=options) as client:
            for tenant in tenants:
                await client.admin.create_tenant(tenant)
                key = (await client.admin.create_key(tenant)).secret
                transport = Transport(target, api_key=key, options=options)
                transport.open()
                stack.push_async_callback(transport.close)
                transports.append(transport)
        yield transports


def _answers(reply: embedding_pb2.EmbedResponse) -> list[Answer]:
    rows = from_bytes(
        reply.vectors.data, count=reply.vectors.count, dimension=reply.vectors.dimension, dtype=FLOAT32
    )
    reasons = {error.position: error.reason for error in reply.errors}
    return [
        Answer(reason=reasons[position]) if position in reasons else Answer(np.asarray(row, np.float32))
        for position, row in enumerate(rows)
    ]
