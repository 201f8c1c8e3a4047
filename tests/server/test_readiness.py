"""Readiness with two models: it follows every pass of either, not only the probes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from failures import failure_of
from fakes.reranker import WordReranker
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import DANA, Caller, Stage, remember, running_stage
from probing import http

from precall.engine.errors import ModelUnavailable, PrecallError
from precall.proto import embedding_pb2
from precall.server.health import Readiness
from precall.server.metrics import ServerMetrics

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
NO_PROBE = 300.0
"""Seconds between two probes: none comes in a test, so what is told is told of ordinary passes."""


class TwoModels:
    """A server with both models, one caller, and what the health service tells."""

    def __init__(self, stage: Stage, reranker: WordReranker, caller: Caller) -> None:
        self.stage = stage
        self.encoder = stage.encoder
        self.reranker = reranker
        self.caller = caller

    async def told(self, status: int) -> None:
        """Wait until the health service tells ``status`` of the server and of a service; HTTP must agree."""
        stub = health_pb2_grpc.HealthStub(self.stage.channel)
        for service in ("", "precall.v1.EmbeddingService"):
            call = stub.Watch(health_pb2.HealthCheckRequest(service=service))
            async with asyncio.timeout(5):
                async for answer in call:
                    if answer.status == status:
                        break
            call.cancel()
        assert (await http(self.stage, "/readyz"))[0] == (200 if status == SERVING else 503)

    async def embed(self, text: str = "boats") -> embedding_pb2.EmbedResponse:
        request = {"texts": [text], "role": embedding_pb2.TEXT_ROLE_QUERY}
        return await self.caller("EmbeddingService/Embed", **request)

    async def rerank(self) -> embedding_pb2.RerankResponse:
        return await self.caller("EmbeddingService/Rerank", query="tea", documents=["tea"])


@asynccontextmanager
async def two_models(data_dir: Path, **changes: float) -> AsyncIterator[TwoModels]:
    reranker = WordReranker()
    async with running_stage(data_dir, reranker=reranker, **changes) as stage:
        yield TwoModels(stage, reranker, await stage.tenant("acme"))


@pytest.mark.parametrize("model", ["encoder", "reranker"])
async def test_probes_find_that_either_model_died_and_came_back(tmp_path: Path, model: str):
    async with two_models(tmp_path / "data", probe_seconds=0.05) as models:
        await models.told(SERVING)
        if model == "encoder":
            models.encoder.broken = True
        else:
            models.reranker.fault = RuntimeError("device lost")
        await models.told(NOT_SERVING)
        assert "MODEL_UNAVAILABLE" in (await http(models.stage, "/readyz"))[1]
        models.encoder.broken, models.reranker.fault = False, None
        await models.told(SERVING)


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


MEMORY_FAULTS = [
    OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
]


@pytest.mark.parametrize("fault", MEMORY_FAULTS, ids=lambda fault: type(fault).__name__)
async def test_an_ordinary_pass_without_memory_drops_readiness_and_the_next_good_one_restores_it(
    tmp_path: Path, fault: Exception
):
    async with two_models(tmp_path / "data", probe_seconds=NO_PROBE) as models:
        await models.told(SERVING)
        models.encoder.fault, models.encoder.broken = fault, True
        (error,) = (await models.embed()).errors
        assert (error.reason, "smaller parts" in error.message) == ("MODEL_UNAVAILABLE", True)
        await models.told(NOT_SERVING)
        assert "too little memory" in (await http(models.stage, "/readyz"))[1]
        await models.rerank()  # the other model's good pass says nothing of this one
        await models.told(NOT_SERVING)
        models.encoder.broken = False
        assert not (await models.embed()).errors
        await models.told(SERVING)


@pytest.mark.parametrize("fault", MEMORY_FAULTS, ids=lambda fault: type(fault).__name__)
async def test_the_same_of_the_reranker(tmp_path: Path, fault: Exception):
    async with two_models(tmp_path / "data", probe_seconds=NO_PROBE) as models:
        models.reranker.fault = fault
        (error,) = (await models.rerank()).errors
        assert (error.reason, "smaller parts" in error.message) == ("MODEL_UNAVAILABLE", True)
        await models.told(NOT_SERVING)
        await models.embed()
        await models.told(NOT_SERVING)
        models.reranker.fault = None
        assert not (await models.rerank()).errors
        await models.told(SERVING)


async def test_a_write_that_the_model_fails_is_told_alike(tmp_path: Path):
    async with two_models(tmp_path / "data", probe_seconds=NO_PROBE) as models:
        models.encoder.fault, models.encoder.broken = MemoryError(), True
        failure = await failure_of(remember(models.caller, DANA, "Dana likes boats"))
        assert (failure.code, failure.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE")
        await models.told(NOT_SERVING)


class SwitchedModel:
    """Works or not as the test says; ``fail_once`` is an ordinary pass that fails on a model that is well."""

    def __init__(self) -> None:
        self.fault: PrecallError | None = None
        self.broken = False
        self.probes = asyncio.Queue[bool]()
        self._listener: Callable[[], object] = lambda: None

    def listen(self, listener: Callable[[], object]) -> None:
        self._listener = listener

    def become(self, fault: PrecallError | None) -> None:
        turned = (fault is None) != (self.fault is None)
        self.fault = fault
        if turned:
            self._listener()

    async def probe(self) -> None:
        self.become(ModelUnavailable("broken") if self.broken else None)
        self.probes.put_nowait(self.broken)
        if self.broken:
            raise ModelUnavailable("broken")


async def test_a_failed_pass_is_followed_by_a_probe_at_once_and_not_by_a_storm_of_them():
    """One request that a pass cannot bear must not keep a sound server out of work until the next probe."""
    model, readiness = SwitchedModel(), Readiness(ServerMetrics())
    await readiness.start([model], interval=NO_PROBE)
    try:
        assert await model.probes.get() is False and readiness.fault is None
        model.become(ModelUnavailable("no memory"))
        async with asyncio.timeout(5):
            assert await model.probes.get() is False
        while readiness.fault is not None:  # noqa: ASYNC110 - told by the task that is probing
            await asyncio.sleep(0)

        model.broken = True
        model.become(ModelUnavailable("no memory"))
        async with asyncio.timeout(5):
            assert await model.probes.get() is True
        for _ in range(100):
            await asyncio.sleep(0)
        assert model.probes.empty() and readiness.fault == "MODEL_UNAVAILABLE: broken"
    finally:
        await readiness.stop()
    assert readiness.fault == "shutting down"


async def test_a_server_whose_model_fails_at_its_start_says_so_and_recovers():
    model, readiness = SwitchedModel(), Readiness(ServerMetrics())
    model.broken = True
    await readiness.start([SwitchedModel(), model], interval=NO_PROBE)
    try:
        assert readiness.fault == "MODEL_UNAVAILABLE: broken"
        model.become(None)
        async with asyncio.timeout(5):
            while readiness.fault is not None:  # noqa: ASYNC110 - told by a task of its own
                await asyncio.sleep(0)
    finally:
        await readiness.stop()


async def test_stopping_wins_over_whatever_the_models_do():
    model, readiness = SwitchedModel(), Readiness(ServerMetrics())
    await readiness.start([model], interval=NO_PROBE)
    model.become(ModelUnavailable("no memory"))
    await readiness.stop()
    model.become(None)
    for _ in range(100):
        await asyncio.sleep(0)
    assert readiness.fault == "shutting down"
    await readiness.stop()
