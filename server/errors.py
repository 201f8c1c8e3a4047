"""The one table from the engine's exceptions to gRPC, and how an error travels.

A failed call carries its kind twice: as ``google.rpc.ErrorInfo`` in the status details, for clients that read
them, and as the trailing metadata ``precall-reason``, for those that would rather not depend on googleapis.
"""

import uuid
from typing import Final, Never, TypeVar

import grpc
import grpc.aio
import structlog
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from precall.engine import errors
from precall.engine.errors import Overloaded, PrecallError

DOMAIN: Final = "precall"
REASON_KEY: Final = "precall-reason"
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
DETAILS_KEY: Final = "grpc-status-details-bin"

MAX_MESSAGE_CHARACTERS: Final = 1_000
"""A status travels in HTTP/2 headers, of which peers take 8 KiB: a longer message would lose all of it."""

STATUS_CODES: Final[dict[type[PrecallError], grpc.StatusCode]] = {
    errors.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    errors.FingerprintMismatch: grpc.StatusCode.FAILED_PRECONDITION,
    errors.MigrationRefused: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ModelChanged: grpc.StatusCode.UNAVAILABLE,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.VersionNotReached: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.NotSupported: grpc.StatusCode.UNIMPLEMENTED,
    errors.Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.Cancelled: grpc.StatusCode.CANCELLED,
    errors.ModelUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.NumericsError: grpc.StatusCode.INTERNAL,
    # A full or read-only disk does not heal between two tries: clients must not retry by themselves.
    errors.StorageUnavailable: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TenantQuarantined: grpc.StatusCode.DATA_LOSS,
    errors.Draining: grpc.StatusCode.UNAVAILABLE,
    errors.ConfigurationError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.PrecallError: grpc.StatusCode.INTERNAL,
}

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_logger = structlog.get_logger(__name__)


def status_code(error: PrecallError) -> grpc.StatusCode:
    """The code of the nearest class of the error that stands in the table."""
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def hidden(error: Exception, *, method: str) -> PrecallError:
    """What a client may know of a fault of ours: an id under which the server's log has the rest."""
    incident = uuid.uuid4().hex
    _logger.error("unexpected error", method=method, incident=incident, exc_info=error)
    return PrecallError(
        f"an unexpected error; the server's log has it as incident {incident}",
        metadata={"incident": incident},
    )


async def abort(context: grpc.aio.ServicerContext[RequestT, ResponseT], error: PrecallError) -> Never:
    """End the call with the error's code, message, details and trailing metadata."""
    code = status_code(error)
    message = _shortened(error.message)
    trailing: list[tuple[str, str | bytes]] = [
        (REASON_KEY, error.reason),
        (DETAILS_KEY, _details(error, code, message)),
    ]
    if isinstance(error, Overloaded):
        trailing.append((PUSHBACK_KEY, str(max(1, round(error.retry_after_seconds * 1000)))))
    await context.abort(code, message, tuple(trailing))


def _details(error: PrecallError, code: grpc.StatusCode, message: str) -> bytes:
    number: int = code.value[0]
    status = Status(code=number, message=message)
    info = ErrorInfo(domain=DOMAIN, reason=error.reason)
    info.metadata.update({key: _shortened(value) for key, value in error.metadata.items()})
    parts: list[ErrorInfo | RetryInfo] = [info]
    if isinstance(error, Overloaded):
        delay = Duration()
        delay.FromMilliseconds(max(1, round(error.retry_after_seconds * 1000)))
        parts.append(RetryInfo(retry_delay=delay))
    for part in parts:
        packed = Any()
        packed.Pack(part)
        status.details.append(packed)
    serialized: bytes = status.SerializeToString()
    return serialized


def _shortened(text: str) -> str:
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return f"{text[: MAX_MESSAGE_CHARACTERS - 1]}…"
