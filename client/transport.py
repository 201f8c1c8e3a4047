"""The channel to the server: credentials, deadlines, and the one rule of what is tried again."""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import grpc
import grpc.aio

from precall.client.backoff import Backoff
from precall.client.errors import ClientClosed, ConfigurationError, Overloaded, PrecallError, from_rpc_error
from precall.client.methods import Method, RequestT, ResponseT
from precall.client.options import ClientOptions

_RETRY_INITIAL_SECONDS = 0.05
_RETRY_MAXIMUM_SECONDS = 2.0
_PUSHBACK_SPREAD = 0.5
_LONGEST_DEADLINE_SECONDS = 365 * 86_400.0
"""gRPC's clock overflows far beyond it, and an endless deadline would have passed at once."""

_MAX_PORT = 65_535
_HOST_AND_PORT = re.compile(r"(\[.*\]|[^:]+):(?P<port>[^:]*)")
"""An address of IPv6 that stands without brackets has no port."""


class Transport:
    """One channel. Must be opened inside the event loop that makes the calls.

    Only UNAVAILABLE is tried again by itself, with backoff and within the deadline; RESOURCE_EXHAUSTED only
    when the server said after how long (``grpc-retry-pushback-ms``).
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str,
        options: ClientOptions,
        tls: grpc.ChannelCredentials | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``draw``: a number in [0, 1) each time, which spreads the tries of many clients.

        Raises ConfigurationError.
        """
        self._draw = draw
        self._address, self._credentials = _resolve(target, tls)
        if not api_key or not api_key.isascii() or any(character.isspace() for character in api_key):
            raise ConfigurationError("api_key is empty or holds characters that no key has")
        self._metadata = (("authorization", f"Bearer {api_key}"),)
        self._options = options
        self._channel: grpc.aio.Channel | None = None

    def open(self) -> None:
        """Make the channel; connects on the first call."""
        settings = _channel_settings(self._options)
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=settings)
        else:
            self._channel = grpc.aio.secure_channel(self._address, self._credentials, options=settings)

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def call(
        self,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        *,
        deadline_seconds: float,
        retry: bool = True,
    ) -> ResponseT:
        """One unary call. Raises the error of the client's tree that the last try ended with."""
        loop = asyncio.get_running_loop()
        end = loop.time() + min(deadline_seconds, _LONGEST_DEADLINE_SECONDS)
        backoff = Backoff(_RETRY_INITIAL_SECONDS, _RETRY_MAXIMUM_SECONDS)
        while True:
            try:
                return await self._unary(method)(
                    request, timeout=max(end - loop.time(), 0.0), metadata=self._metadata
                )
            except grpc.aio.AioRpcError as failure:
                error = from_rpc_error(failure)
                wait = wait_before_retry(error, backoff, self._draw()) if retry else None
                if wait is None or loop.time() + wait >= end:
                    raise error from failure
            await asyncio.sleep(wait)

    def stream(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> grpc.aio.UnaryStreamCall[RequestT, ResponseT]:
        """A server stream without a deadline; its reads raise ``grpc.aio.AioRpcError``."""
        multicallable: grpc.aio.UnaryStreamMultiCallable[RequestT, ResponseT]
        multicallable = self._open_channel.unary_stream(
            method.full_path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return multicallable(request, metadata=self._metadata)

    async def messages(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT, None]:
        """The messages of a server stream, errors mapped; leaving the loop early cancels the call."""
        call = self.stream(method, request)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as failure:
            raise from_rpc_error(failure) from failure
        finally:
            call.cancel()

    @property
    def _open_channel(self) -> grpc.aio.Channel:
        if self._channel is None:
            raise ClientClosed("the client is not open: use it inside `async with`")
        return self._channel

    def _unary(
        self, method: Method[RequestT, ResponseT]
    ) -> grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]:
        return self._open_channel.unary_unary(
            method.full_path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )


def wait_before_retry(error: PrecallError, backoff: Backoff, drawn: float) -> float | None:
    """Seconds, or None when the error must not be tried again.

    A server tells all whom it refuses the same seconds. They come back spread over half as many more, by
    ``drawn``, which is in [0, 1), and none of them sooner than it was told.
    """
    if error.code is grpc.StatusCode.UNAVAILABLE:
        return backoff.next()
    if isinstance(error, Overloaded):
        after = error.retry_after_seconds
        return None if after is None else after * (1.0 + _PUSHBACK_SPREAD * drawn)
    return None


def _resolve(target: str, tls: grpc.ChannelCredentials | None) -> tuple[str, grpc.ChannelCredentials | None]:
    scheme, separator, address = target.partition("://")
    if not separator:
        address, scheme = target, "https" if tls is not None else "http"
    address = address.rstrip("/")
    if scheme not in ("http", "https") or not address.isprintable() or not address or "/" in address:
        raise ConfigurationError(f"target {target!r}: use host:port, http://host:port or https://host:port")
    _check_port(target, address)
    if scheme == "http" and tls is not None:
        raise ConfigurationError(f"target {target!r} says http, but TLS credentials were given: use https")
    return address, tls or (grpc.ssl_channel_credentials() if scheme == "https" else None)


def _check_port(target: str, address: str) -> None:
    """Checked here because gRPC takes a port modulo 65536, and so connects to another than was meant."""
    with_port = _HOST_AND_PORT.fullmatch(address)
    if with_port is None:
        if "://" not in target and ":" not in address:
            raise ConfigurationError(f"target {target!r}: the port is missing, as in {address}:50051")
        return
    port = with_port["port"]
    if not (port.isascii() and port.isdecimal() and 1 <= int(port) <= _MAX_PORT):
        raise ConfigurationError(f"target {target!r}: the port must be a number from 1 to {_MAX_PORT}")


def _channel_settings(options: ClientOptions) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_send_message_length", options.max_message_bytes),
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.keepalive_time_ms", options.keepalive_time_ms),
        ("grpc.keepalive_timeout_ms", options.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # gRPC's own reconnect backoff grows to two minutes; a conversation cannot wait for that.
        ("grpc.initial_reconnect_backoff_ms", int(options.reconnect_initial_seconds * 1000)),
        # Despite its name this bounds one attempt to connect; it must leave time for TLS over a slow link.
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", int(options.reconnect_maximum_seconds * 1000)),
        ("grpc.enable_retries", 0),
        # Two clients of one process must not share a connection, nor its state.
        ("grpc.use_local_subchannel_pool", 1),
    ]
