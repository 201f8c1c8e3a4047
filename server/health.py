"""Readiness that follows the models: real forward passes, ordinary ones and probes, decide what is told."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog
from grpc_health.v1 import health, health_pb2

from precall.engine.errors import PrecallError
from precall.server.metrics import ServerMetrics

SERVICES: Final = (
    "precall.v1.EmbeddingService",
    "precall.v1.MemoryService",
    "precall.v1.RetrievalService",
    "precall.v1.AnticipationService",
    "precall.v1.AdminService",
)
STARTING: Final = "starting"
DRAINING: Final = "shutting down"

_logger = structlog.get_logger(__name__)


class WorkingModel(Protocol):
    """A model behind its queue: what readiness must know of it."""

    @property
    def fault(self) -> PrecallError | None:
        """Why its last forward pass failed; None if it worked."""
        ...

    def listen(self, listener: Callable[[], object]) -> None:
        """Call ``listener``, on the event loop, whenever ``fault`` appears or goes."""
        ...

    async def probe(self) -> None:
        """A real forward pass. Raises what ``fault`` then says."""
        ...


class Readiness:
    """Whether this server should be sent work, told alike over gRPC health, over HTTP, and as a metric.

    It is ready while the last pass of every model worked. A pass that fails, whoever asked for it, ends that
    at once and is followed by a probe; whichever pass works next, ordinary or a probe's, restores it.
    """

    def __init__(self, metrics: ServerMetrics) -> None:
        self.servicer = health.aio.HealthServicer()
        self._metrics = metrics
        self._models: Sequence[WorkingModel] = ()
        self._fault: str | None = STARTING
        self._turned = asyncio.Event()
        self._doubted = asyncio.Event()
        self._telling = asyncio.Lock()
        self._tasks: Sequence[asyncio.Task[None]] = ()
        metrics.ready.set(0)

    @property
    def fault(self) -> str | None:
        """Why there is no work to be sent here; None while all is well."""
        return self._fault

    async def start(self, models: Sequence[WorkingModel], *, interval: float) -> None:
        """Say so once a pass of each model works, and go on. ``interval``: seconds between two probes."""
        self._models = models
        await self._probe()
        for model in models:
            model.listen(self._on_turn)
        self._tasks = (
            asyncio.create_task(self._keep_probing(interval), name="readiness-probe"),
            asyncio.create_task(self._keep_telling(), name="readiness"),
        )

    async def stop(self) -> None:
        """Not ready from now on, whatever the models can do. Twice is as once."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._tell(DRAINING)
        await self.servicer.enter_graceful_shutdown()

    def _on_turn(self) -> None:
        self._turned.set()
        if self._model_fault() is not None:
            self._doubted.set()

    async def _keep_telling(self) -> None:
        while True:
            await self._turned.wait()
            self._turned.clear()
            await self._tell_of_models()

    async def _keep_probing(self, interval: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._doubted.wait()
            self._doubted.clear()
            await self._probe()

    async def _probe(self) -> None:
        # What a probe raises, the model's own fault says as well.
        await asyncio.gather(*(model.probe() for model in self._models), return_exceptions=True)
        await self._tell_of_models()

    async def _tell_of_models(self) -> None:
        async with self._telling:  # so that no service is left with what is no longer so
            await self._tell(self._model_fault())

    def _model_fault(self) -> str | None:
        faults = (model.fault for model in self._models)
        return next((f"{fault.reason}: {fault.message}" for fault in faults if fault is not None), None)

    async def _tell(self, fault: str | None) -> None:
        if fault is None and self._fault is not None:
            _logger.info("ready")
        elif fault not in (self._fault, DRAINING):
            _logger.warning("not ready", fault=fault)
        self._fault = fault
        self._metrics.ready.set(fault is None)
        status = (
            health_pb2.HealthCheckResponse.SERVING
            if fault is None
            else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for service in _all_services():
            await self.servicer.set(service, status)


def _all_services() -> Sequence[str]:
    """The empty name stands for the server as a whole."""
    return ("", *SERVICES)
