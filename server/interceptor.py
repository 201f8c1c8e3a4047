"""The one gate of precall.v1: here every call is admitted, authenticated and timed, and its errors mapped."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from precall.engine.errors import InvalidInput, Overloaded, PermissionDenied, PrecallError
from precall.server.access import NEEDS, PACKAGE
from precall.server.auth import identify
from precall.server.call import Call, enter_call
from precall.server.errors import abort, hidden, status_code
from precall.server.keys import KeyStore
from precall.server.metrics import ServerMetrics
from precall.server.places import Places

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Context = grpc.aio.ServicerContext[Any, Any]
Decode = Callable[[bytes], Any]

EXHAUSTED_RETRY_SECONDS: Final = 1.0
"""Memory and threads come back when calls in progress end, which nobody can foretell."""

_NO_THREAD: Final = "can't start new thread"
"""CPython's words where the system gives it no further thread; their class says nothing."""

_logger = structlog.get_logger(__name__)


class Gate(grpc.aio.ServerInterceptor):
    """Wraps the handlers of precall.v1; health and reflection pass untouched, as probes carry no key."""

    def __init__(self, keys: KeyStore, metrics: ServerMetrics, *, max_concurrent: int) -> None:
        """``max_concurrent`` bounds the unary calls in progress; streams are not counted, they only wait.

        A call takes its place once its key is known, for each tenant has a share of them.
        """
        self._keys = keys
        self._metrics = metrics
        self._places = Places(max_concurrent)

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable["grpc.RpcMethodHandler[RequestT, ResponseT] | None"]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[RequestT, ResponseT] | None":
        handler: Any = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(PACKAGE):
            return handler  # type: ignore[no-any-return]
        method = handler_call_details.method.removeprefix(PACKAGE)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(method, handler.unary_unary, handler.request_deserializer),
                response_serializer=handler.response_serializer,
            )
        serialize = handler.response_serializer
        return grpc.unary_stream_rpc_method_handler(
            self._stream(method, handler.unary_stream, handler.request_deserializer),
            # What was pushed before is there in bytes already (`EventMapper`).
            response_serializer=lambda reply: reply if isinstance(reply, bytes) else serialize(reply),
        )

    def _unary(
        self, method: str, answer: Callable[[Any, Context], Awaitable[Any]], decode: Decode
    ) -> Callable[[bytes, Context], Awaitable[Any]]:
        async def guarded(body: bytes, context: Context) -> Any:
            started = time.perf_counter()
            outcome = grpc.StatusCode.OK
            try:
                call = self._enter(method, context)
                with self._places.taken(method, call.principal.tenant_id):
                    reply = await answer(_decoded(body, decode), context)
                    self._metrics.observe_stages(call.stages)
                    return reply
            except Exception as error:
                known = _known(error, method)
                outcome = status_code(known)
                await abort(context, known)
            except asyncio.CancelledError:
                outcome = grpc.StatusCode.CANCELLED
                raise
            finally:
                self._metrics.observe_rpc(method, outcome, time.perf_counter() - started)

        return guarded

    def _stream(
        self, method: str, answer: Callable[[Any, Context], AsyncIterator[Any]], decode: Decode
    ) -> Callable[[bytes, Context], Awaitable[None]]:
        async def guarded(body: bytes, context: Context) -> None:
            started = time.perf_counter()
            outcome = grpc.StatusCode.OK
            replies: AsyncIterator[Any] | None = None
            try:
                self._enter(method, context)
                replies = answer(_decoded(body, decode), context)
                async for reply in replies:
                    await _write(context, reply)
            except Exception as error:
                known = _known(error, method)
                outcome = status_code(known)
                await abort(context, known)
            except asyncio.CancelledError:
                outcome = grpc.StatusCode.CANCELLED
                raise
            finally:
                close = getattr(replies, "aclose", None)
                if close is not None:  # at once, so that what the stream held is let go of
                    await close()
                self._metrics.observe_rpc(method, outcome, time.perf_counter() - started)

        return guarded

    def _enter(self, method: str, context: Context) -> Call:
        principal = identify(self._keys, context.invocation_metadata() or ())
        need = NEEDS.get(method)
        if need is None:
            raise PermissionDenied(f"{method} is not open to any key")
        principal.require(need)
        remaining = _remaining(context)
        call = Call(method, principal, None if remaining is None else time.monotonic() + remaining)
        enter_call(call)
        return call


def _decoded(body: bytes, decode: Decode) -> Any:
    """Decoded here and not by gRPC, which answers UNKNOWN and fills the log with what strangers send."""
    try:
        return decode(body)
    except DecodeError as error:
        raise InvalidInput(
            "the body is no message of this method: does the client fit the server?"
        ) from error


async def _write(context: Context, reply: Any) -> None:
    """Written here and not yielded to gRPC, which takes a peer that hangs up for a fault of ours.

    Raises CancelledError when the peer has gone.
    """
    try:
        await context.write(reply)
    except grpc.aio.InternalError as error:
        raise asyncio.CancelledError("the peer hung up") from error


def _remaining(context: Context) -> float | None:
    """Seconds left to the caller's deadline, None where it set none (which gRPC's type stubs leave out)."""
    return context.time_remaining()


def _known(error: Exception, method: str) -> PrecallError:
    if isinstance(error, PrecallError):
        return error
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD):
        _logger.error("out of memory or threads", method=method, exc_info=error)
        return Overloaded(
            "the server has no memory or no thread left for the call: send it again in a moment",
            retry_after_seconds=EXHAUSTED_RETRY_SECONDS,
        )
    return hidden(error, method=method)
