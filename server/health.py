"""Readiness that follows the model: a real forward pass every few seconds decides what probes are told."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

import structlog
from grpc_health.v1 import health, health_pb2

from precall.engine.batching.batcher import Batcher
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


class Readiness:
    """Whether this server should be sent work, told alike over gRPC health, over HTTP, and as a metric."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self.servicer = health.aio.HealthServicer()
        self._metrics = metrics
        self._fault: str | None = STARTING
        self._probing: asyncio.Task[None] | None = None
        metrics.ready.set(0)

    @property
    def fault(self) -> str | None:
        """Why there is no work to be sent here; None while all is well."""
        return self._fault

    async def start(self, batcher: Batcher, *, interval: float) -> None:
        """Say so once a forward pass works, and go on probing. ``interval``: seconds between two probes."""
        await self._probe(batcher)
        self._probing = asyncio.create_task(self._keep_probing(batcher, interval), name="readiness")

    async def stop(self) -> None:
        """Not ready from now on, whatever the model can do. Twice is as once."""
        if self._probing is not None:
            probing, self._probing = self._probing, None
            probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probing
        await self._tell(DRAINING)
        await self.servicer.enter_graceful_shutdown()

    async def _keep_probing(self, batcher: Batcher, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            await self._probe(batcher)

    async def _probe(self, batcher: Batcher) -> None:
        try:
            await batcher.probe()
        except PrecallError as error:
            await self._tell(f"{error.reason}: {error.message}")
        else:
            await self._tell(None)

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
