"""The Embed call over gRPC on the loopback, with nothing of the server but the batcher behind it.

The whole server needs libraries that a bare GPU machine lacks (pydantic, structlog); what a call of it costs
beside the model is the same message, the same batcher and the same event loop.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np

from precall.bench.gpu_model import text_of
from precall.bench.gpu_throughput import BENCHMARK, QUERY_TOKENS
from precall.bench.results import Measurement
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.proto import common_pb2, embedding_pb2
from precall.proto.embedding_pb2_grpc import EmbeddingServiceStub
from precall.scoring.vectors import FLOAT16, to_bytes

if TYPE_CHECKING:
    from precall.proto.embedding_pb2_grpc import EmbeddingServiceAsyncStub

_TENANT = "bench"
_WARM_UPS = 20


@dataclass(frozen=True)
class ServiceSizes:
    """``flood_callers`` each keep a request of ``flood_texts`` texts in flight: work always waits."""

    queries: int = 300
    text_tokens: int = 512
    flood_callers: int = 16
    flood_texts: int = 32
    flood_queries: int = 150
    batch_tokens: Sequence[int] = (4_096, 16_384)
    """Tokens of a batch: what a query waits for, and what a GPU has to fill itself with."""


async def measure_service(encoder: Encoder, sizes: ServiceSizes) -> list[Measurement]:
    """Single queries through gRPC, then queries through the batcher while a flood of documents goes on."""
    chance = np.random.default_rng(17)
    async with _batcher(encoder, sizes.batch_tokens[-1]) as batcher, _service(batcher) as stub:
        taken = []
        for _ in range(_WARM_UPS + sizes.queries):
            request = embedding_pb2.EmbedRequest(texts=[text_of(QUERY_TOKENS, chance)])
            begin = time.perf_counter()
            response = await stub.Embed(request)
            taken.append(time.perf_counter() - begin)
            assert response.vectors.count == 1
        rows = _latency_rows(f"a query of {QUERY_TOKENS} tokens through gRPC", taken[_WARM_UPS:])
    for batch_tokens in sizes.batch_tokens:
        async with _batcher(encoder, batch_tokens) as batcher:
            rows += await _measure_flood(batcher, sizes, batch_tokens)
    return rows


async def _measure_flood(batcher: Batcher, sizes: ServiceSizes, batch_tokens: int) -> list[Measurement]:
    chance = np.random.default_rng(23)
    await _query_seconds(batcher, chance, _WARM_UPS)
    idle = await _query_seconds(batcher, chance, sizes.flood_queries)
    documents = [text_of(sizes.text_tokens, chance) for _ in range(sizes.flood_texts * 8)]
    embedded = 0

    async def flood(number: int) -> None:
        nonlocal embedded
        turn = number
        while True:
            begin = turn * sizes.flood_texts % len(documents)
            # A text in flight is computed once: a number makes each one new.
            texts = [f"{number}{turn} {text}" for text in documents[begin : begin + sizes.flood_texts]]
            outcomes = await batcher.embed(
                texts, TextRole.DOCUMENT, tenant=f"flood {number}", work_class=WorkClass.INGEST
            )
            assert all(outcome.error is None for outcome in outcomes)
            embedded += sum(outcome.usage.used for outcome in outcomes if outcome.usage is not None)
            turn += 1

    flooding = [asyncio.create_task(flood(number)) for number in range(sizes.flood_callers)]
    try:
        await _query_seconds(batcher, chance, _WARM_UPS)
        embedded, begin = 0, time.perf_counter()
        flooded = await _query_seconds(batcher, chance, sizes.flood_queries)
        rate = embedded / (time.perf_counter() - begin)
    finally:
        for task in flooding:
            task.cancel()
        ended = await asyncio.gather(*flooding, return_exceptions=True)
    for end in ended:
        if isinstance(end, Exception):
            raise end
    case = f"batches of {batch_tokens} tokens"
    rows = _latency_rows(f"{case}, idle", idle)
    rows += _latency_rows(f"{case}, under a flood of documents", flooded, idle)
    return [*rows, Measurement(BENCHMARK, f"{case}, the flood", "rate", rate, "tokens/s")]


async def _query_seconds(batcher: Batcher, chance: np.random.Generator, count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        text = text_of(QUERY_TOKENS, chance)
        begin = time.perf_counter()
        await batcher.embed_one(text, TextRole.DOCUMENT, tenant=_TENANT, work_class=WorkClass.CONVERSATION)
        seconds.append(time.perf_counter() - begin)
    return seconds


def _latency_rows(
    case: str, seconds: Sequence[float], idle: Sequence[float] | None = None
) -> list[Measurement]:
    rows = []
    for metric, share in (("p50", 50), ("p95", 95)):
        ms = float(np.percentile(seconds, share)) * 1e3
        if idle is None:
            rows.append(Measurement(BENCHMARK, case, metric, ms, "ms"))
        else:
            ratio = float(np.percentile(idle, share)) * 1e3 / ms
            rows.append(Measurement(BENCHMARK, case, metric, ms, "ms", "idle", ratio))
    return rows


def _embed_handler(batcher: Batcher) -> grpc.GenericRpcHandler:
    """The one method. It takes texts as they are: with a query's prompt they would have more tokens than was
    asked for.
    """
    card = batcher.encoder.card

    async def embed(
        request: embedding_pb2.EmbedRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> embedding_pb2.EmbedResponse:
        outcomes = await batcher.embed(
            request.texts, TextRole.DOCUMENT, tenant=_TENANT, work_class=WorkClass.CONVERSATION
        )
        rows = np.stack([outcome.require_vector() for outcome in outcomes])
        return embedding_pb2.EmbedResponse(
            vectors=common_pb2.Vectors(
                data=to_bytes(rows, FLOAT16),
                count=len(rows),
                dimension=card.dimension,
                format=common_pb2.VECTOR_FORMAT_FLOAT16,
                model_fingerprint=card.fingerprint,
            )
        )

    method = grpc.unary_unary_rpc_method_handler(
        embed,
        request_deserializer=embedding_pb2.EmbedRequest.FromString,
        response_serializer=embedding_pb2.EmbedResponse.SerializeToString,
    )
    service = embedding_pb2.DESCRIPTOR.services_by_name["EmbeddingService"].full_name
    return grpc.method_handlers_generic_handler(service, {"Embed": method})


@asynccontextmanager
async def _service(batcher: Batcher) -> AsyncIterator["EmbeddingServiceAsyncStub"]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_embed_handler(batcher),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield EmbeddingServiceStub(channel)
    finally:
        await server.stop(grace=None)


@asynccontextmanager
async def _batcher(encoder: Encoder, batch_tokens: int) -> AsyncIterator[Batcher]:
    """As the server makes it for a model on a GPU, but for ``batch_tokens``."""
    settings = BatchingSettings(
        padded=False,
        max_batch_tokens=batch_tokens,
        max_batch_items=1_024,
        max_waiting_tokens=2_000_000,
        look_ahead=1_024,
    )
    async with contextlib.AsyncExitStack() as stack:
        batcher = Batcher(encoder, settings)
        await batcher.start()
        stack.push_async_callback(batcher.close)
        yield batcher
