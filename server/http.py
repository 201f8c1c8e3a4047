"""Metrics and health over HTTP/1.1, for scrapers and probes that do not speak gRPC."""

import asyncio
import contextlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from precall.engine.errors import ConfigurationError
from precall.server.health import Readiness
from precall.server.metrics import ServerMetrics

READ_SECONDS: Final = 10.0
MAX_HEADER_BYTES: Final = 16 * 1024
_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT


class HttpServer:
    """GET /metrics, /healthz (the process is alive), /readyz (it should be sent work); one a connection."""

    def __init__(self, metrics: ServerMetrics, readiness: Readiness) -> None:
        self._metrics = metrics
        self._readiness = readiness
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Returns the bound port. Raises ConfigurationError."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEADER_BYTES)
        except OSError as error:
            raise ConfigurationError(
                f"metrics cannot be served on {host}:{port} ({error.strerror or error}): choose another "
                "metrics_port, or 0 for any free one"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                request = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0]
                answer = self._answer(request)
                writer.write(_head(answer) + (b"" if request.startswith(b"HEAD ") else answer.body))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a peer that hangs up, dawdles or talks nonsense gets no answer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, request_line: bytes) -> _Answer:
        method, _, rest = request_line.decode("latin-1").partition(" ")
        path = _path(rest.partition(" ")[0])
        if method not in ("GET", "HEAD"):
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"use GET\n")
        match path:
            case "/metrics":
                return _Answer(HTTPStatus.OK, generate_latest(self._metrics.registry), CONTENT_TYPE_LATEST)
            case "/healthz":
                return _Answer(HTTPStatus.OK, b"alive\n")
            case "/readyz":
                fault = self._readiness.fault
                if fault is None:
                    return _Answer(HTTPStatus.OK, b"ready\n")
                return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {fault}\n".encode())
            case _:
                return _Answer(HTTPStatus.NOT_FOUND, b"there are /metrics, /healthz and /readyz\n")


def _path(target: str) -> str:
    """The path of a request's target, which a client of a proxy writes as a whole URI."""
    without_query = target.partition("?")[0]
    scheme, separator, rest = without_query.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        return f"/{rest.partition('/')[2]}"
    return without_query


def _head(answer: _Answer) -> bytes:
    return (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode("latin-1")
