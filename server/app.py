"""A server from its settings: assembled, run until a signal, drained."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import grpc.aio
import structlog
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from precall.engine.engine import Engine
from precall.engine.errors import ConfigurationError
from precall.engine.retrieval.accurate import AccurateSearch, AccurateSettings
from precall.engine.retrieval.reranking import RerankQueue
from precall.proto.admin_pb2_grpc import add_AdminServiceServicer_to_server
from precall.proto.anticipation_pb2_grpc import add_AnticipationServiceServicer_to_server
from precall.proto.embedding_pb2_grpc import add_EmbeddingServiceServicer_to_server
from precall.proto.memory_pb2_grpc import add_MemoryServiceServicer_to_server
from precall.proto.retrieval_pb2_grpc import add_RetrievalServiceServicer_to_server
from precall.server.admin_key import ensure_admin_key
from precall.server.health import SERVICES, Readiness, WorkingModel
from precall.server.http import HttpServer
from precall.server.interceptor import Gate
from precall.server.keys import KeyStore
from precall.server.light_encoders import LightEncoders
from precall.server.metrics import ServerMetrics
from precall.server.model import ServedModel, load_model
from precall.server.services.admin import AdminService
from precall.server.services.anticipation import AnticipationService
from precall.server.services.embedding import EmbeddingService
from precall.server.services.memory import MemoryService
from precall.server.services.retrieval import RetrievalService
from precall.server.settings import ServerSettings

KEYS_NAME: Final = "control.db"
CLIENT_PING_MILLISECONDS: Final = 10_000
"""The shortest time that a client may leave between two pings; ours ping every 30 s."""
SERVER_PING_MILLISECONDS: Final = 30_000
PING_TIMEOUT_MILLISECONDS: Final = 10_000

MAX_PENDING_CALLS: Final = 1_000_000
"""gRPC drops calls over its own limit of 1,000 without a word; the `Gate` refuses them and says why."""

_LAST_SECONDS: Final = 1.0
"""Of a drain's grace: then what still waits is told so, before gRPC cancels it without a reason."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a running server answers."""

    host: str
    port: int
    metrics_host: str
    metrics_port: int
    pid: int

    @property
    def target(self) -> str:
        """What a gRPC client connects to."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PrecallServer:
    """One server. ``start`` it once; ``stop`` drains it and closes every file."""

    def __init__(
        self, settings: ServerSettings, load: Callable[[ServerSettings], ServedModel] = load_model
    ) -> None:
        self._settings = settings
        self._load = load
        self._metrics = ServerMetrics()
        self._readiness = Readiness(self._metrics)
        self._http = HttpServer(self._metrics, self._readiness)
        self._undo = contextlib.AsyncExitStack()

    async def start(self) -> Endpoints:
        """Returns once a call would be answered; undoes what it began if it cannot.

        Raises ConfigurationError, ModelUnavailable, NumericsError.
        """
        try:
            return await self._start()
        except BaseException:
            await self._undo.aclose()
            raise

    async def _start(self) -> Endpoints:
        settings = self._settings
        metrics_port = await self._http.start(settings.metrics_host, settings.metrics_port)
        self._undo.push_async_callback(self._http.close)

        model = await asyncio.to_thread(self._load, settings)
        self._undo.callback(model.close)
        engine = Engine(
            replace(
                settings.engine_settings,
                batching=model.batching,
                next_batching=None if model.next is None else model.next.batching,
            ),
            model.encoder,
            next_encoder=None if model.next is None else model.next.encoder,
            batch_observer=self._metrics,
            anticipation_observer=self._metrics,
            recall_observer=self._metrics,
            residency_observer=self._metrics,
        )
        self._undo.push_async_callback(engine.close)
        await engine.start()

        keys = self._open_keys()
        self._undo.callback(keys.close)
        self._metrics.server.info(dict(model.facts))
        self._metrics.open_tenants.set_function(lambda: engine.open_tenants)
        self._metrics.resident_partitions.set_function(lambda: len(engine.residency))
        self._metrics.resident_bytes.set_function(lambda: engine.residency.nbytes)
        self._metrics.memory_budget.set(engine.residency.budget_bytes)

        reranking = None if model.reranker is None else RerankQueue(model.reranker)
        light = LightEncoders(engine.models, model.light_settings, settings.data_dir, self._metrics)
        self._undo.push_async_callback(light.close)
        embedding = EmbeddingService(engine, model, reranking, light, max_batch=settings.max_batch)
        server = self._grpc_server(engine, keys, embedding, reranking)
        port = _bind(server, settings)
        self._undo.push_async_callback(self._readiness.stop)
        models: list[WorkingModel] = [served.batcher for served in engine.models]
        if reranking is not None:
            self._undo.push_async_callback(reranking.close)
            models.append(reranking)
        await self._readiness.start(models, interval=settings.probe_seconds)
        await server.start()
        self._undo.push_async_callback(self._drain, server, engine, reranking)
        return Endpoints(settings.host, port, settings.metrics_host, metrics_port, os.getpid())

    async def stop(self) -> None:
        """Not ready, then drained within the grace, then closed: in that order, by undoing the start."""
        await self._undo.aclose()

    async def _drain(self, server: grpc.aio.Server, engine: Engine, reranking: RerankQueue | None) -> None:
        grace = self._settings.drain_seconds
        await self._readiness.stop()
        await engine.anticipator.drain(grace_seconds=grace)
        refuse = partial(_refuse_waiting, engine, reranking)
        refusal = asyncio.get_running_loop().call_later(max(grace - _LAST_SECONDS, grace / 2), refuse)
        try:
            await server.stop(grace)
        finally:
            refusal.cancel()

    def _open_keys(self) -> KeyStore:
        settings = self._settings
        configured = settings.admin_key.get_secret_value() if settings.admin_key is not None else None
        keys = KeyStore(settings.data_dir / KEYS_NAME, configured_admin=configured)
        try:
            written = ensure_admin_key(keys, settings.data_dir)
        except BaseException:
            keys.close()
            raise
        if written is not None:
            _logger.info("made an admin key", file=str(written))
        return keys

    def _grpc_server(
        self, engine: Engine, keys: KeyStore, embedding: EmbeddingService, reranking: RerankQueue | None
    ) -> grpc.aio.Server:
        settings = self._settings
        gate = Gate(keys, self._metrics, max_concurrent=settings.max_concurrent_rpcs)
        server = grpc.aio.server(
            interceptors=[gate],
            options=[
                ("grpc.max_receive_message_length", settings.max_message_bytes),
                ("grpc.max_send_message_length", settings.max_message_bytes),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", CLIENT_PING_MILLISECONDS),
                ("grpc.keepalive_time_ms", SERVER_PING_MILLISECONDS),
                ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MILLISECONDS),
                ("grpc.server.max_pending_requests", MAX_PENDING_CALLS),
                ("grpc.server.max_pending_requests_hard_limit", MAX_PENDING_CALLS),
                ("grpc.so_reuseport", 0),  # else a second server on the port would take half of the calls
            ],
        )
        max_batch = settings.max_batch
        add_EmbeddingServiceServicer_to_server(embedding, server)
        add_MemoryServiceServicer_to_server(MemoryService(engine, max_batch=max_batch), server)
        accurate = None
        if reranking is not None:
            accurate = AccurateSearch(reranking, AccurateSettings(candidates=settings.rerank_candidates))
        add_RetrievalServiceServicer_to_server(RetrievalService(engine, accurate), server)
        add_AnticipationServiceServicer_to_server(AnticipationService(engine, keys, self._metrics), server)
        add_AdminServiceServicer_to_server(AdminService(engine, keys), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._readiness.servicer, server)
        reflection.enable_server_reflection((*SERVICES, reflection.SERVICE_NAME), server)
        return server


@asynccontextmanager
async def running_server(
    settings: ServerSettings, load: Callable[[ServerSettings], ServedModel] = load_model
) -> AsyncIterator[Endpoints]:
    """A server inside this process and event loop, stopped at the end of the block."""
    server = PrecallServer(settings, load)
    endpoints = await server.start()
    try:
        yield endpoints
    finally:
        await server.stop()


async def serve(
    settings: ServerSettings,
    *,
    ready: Callable[[Endpoints], None] = lambda _: None,
    load: Callable[[ServerSettings], ServedModel] = load_model,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        remove_ready_file(settings.ready_file)  # one that an earlier process left speaks of another server
        server = PrecallServer(settings, load)
        endpoints = await server.start()
        try:
            if settings.ready_file is not None:
                write_ready_file(settings.ready_file, endpoints)
            ready(endpoints)
            await stopping.wait()
            _logger.info("draining", grace_seconds=settings.drain_seconds)
        finally:
            try:
                remove_ready_file(settings.ready_file)
            finally:
                await server.stop()
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def write_ready_file(path: Path, endpoints: Endpoints) -> None:
    """Tell whoever waits for the file where the server answers; whole or not at all.

    Raises ConfigurationError.
    """
    aside = path.with_name(path.name + ".making")
    try:
        aside.write_text(json.dumps(asdict(endpoints)) + "\n")
        aside.replace(path)
    except OSError as error:
        raise ConfigurationError(f"ready_file {path} cannot be written: {error.strerror}") from error


def remove_ready_file(path: Path | None) -> None:
    """Nobody who waits for the file may find one that is not true (any more). Raises ConfigurationError."""
    if path is None:
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"ready_file {path} cannot be removed: {error.strerror}") from error


def _refuse_waiting(engine: Engine, reranking: RerankQueue | None) -> None:
    """What waits for a model is told that the server drains. What a model computes has its last moment."""
    for model in engine.models:
        model.batcher.refuse_waiting()
    if reranking is not None:
        reranking.refuse_waiting()


def _bind(server: grpc.aio.Server, settings: ServerSettings) -> int:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        return server.add_insecure_port(f"{host}:{settings.port}")
    except RuntimeError as error:
        raise ConfigurationError(
            f"{host}:{settings.port} cannot be listened on: it is in use, or no address of this machine; "
            "choose another port or host"
        ) from error
