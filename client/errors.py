"""The client's exception tree: the engine's, mirrored, and the one table from the wire to it.

The server names the kind of a failure in the trailing metadata ``precall-reason`` (UPPER_SNAKE); a failure
that never reached a server has a gRPC status code and no reason.
"""

from collections.abc import Iterator
from typing import Final

import grpc
import grpc.aio

REASON_KEY: Final = "precall-reason"
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"


class PrecallError(Exception):
    """Root of the tree. ``reason`` names the kind; ``code`` is the gRPC status, None if no call was made."""

    reason = "INTERNAL"

    def __init__(
        self, message: str, *, reason: str | None = None, code: grpc.StatusCode | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or type(self).reason
        self.code = code


class InvalidInput(PrecallError):
    """The caller must change the request; sending it again will not help."""

    reason = "INVALID_INPUT"


class InvalidScope(InvalidInput):
    """A ladder level is missing, unknown, or empty."""

    reason = "INVALID_SCOPE"


class TextTooLong(InvalidInput):
    """More tokens than the model takes, and truncation was not allowed."""

    reason = "TEXT_TOO_LONG"


class InvalidVector(InvalidInput):
    """A vector is NaN, zero, of the wrong dimension or of the wrong byte length."""

    reason = "INVALID_VECTOR"


class ConfigurationError(PrecallError):
    """A setting is wrong; the message says which and what it may be."""

    reason = "CONFIGURATION"


class ExtraMissing(ConfigurationError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    reason = "EXTRA_MISSING"


class ClientClosed(PrecallError):
    """The client or the session was used before ``async with`` entered it or after it was left."""

    reason = "CLIENT_CLOSED"


class FingerprintMismatch(PrecallError):
    """Vectors of another model were offered or asked for."""

    reason = "MODEL_FINGERPRINT_MISMATCH"


class MigrationRefused(PrecallError):
    """The state of the tenant's migration does not allow this step; the message says what does."""

    reason = "MIGRATION_REFUSED"


class NotFound(PrecallError):
    """What was named does not exist, or the caller may not see it: the two are not told apart."""

    reason = "NOT_FOUND"


class TenantNotFound(NotFound):
    reason = "TENANT_NOT_FOUND"


class SessionNotFound(NotFound):
    """The server does not know the session; it is opened again without the caller's doing."""

    reason = "SESSION_NOT_FOUND"


class StreamNotFound(NotFound):
    reason = "STREAM_NOT_FOUND"


class AlreadyExists(PrecallError):
    reason = "ALREADY_EXISTS"


class VersionNotReached(PrecallError):
    """``min_version`` is ahead of what the server holds."""

    reason = "VERSION_NOT_REACHED"


class Unauthenticated(PrecallError):
    reason = "UNAUTHENTICATED"


class PermissionDenied(PrecallError):
    reason = "PERMISSION_DENIED"


class NotSupported(PrecallError):
    """The contract names it, and this server, or this client, does not do it."""

    reason = "NOT_SUPPORTED"


class DeadlineExceeded(PrecallError):
    reason = "DEADLINE_EXCEEDED"


class Cancelled(PrecallError):
    reason = "CANCELLED"


class Overloaded(PrecallError):
    """Refused before any work was done; ``retry_after_seconds`` is the server's estimate, None: unknown."""

    reason = "OVERLOADED"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        code: grpc.StatusCode | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, code=code)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(PrecallError):
    """No server answered, or the one that did cannot serve now."""

    reason = "UNAVAILABLE"


class ModelUnavailable(Unavailable):
    """No usable model: its files are missing, do not match their hash, or its worker is down."""

    reason = "MODEL_UNAVAILABLE"


class ModelChanged(Unavailable):
    """The tenant's model changed while the request was under way: the same again finds the new one."""

    reason = "MODEL_CHANGED"


class StorageUnavailable(PrecallError):
    """The server's disk refused a write. Nothing of the request was kept."""

    reason = "STORAGE_UNAVAILABLE"


class Draining(Unavailable):
    """The server is shutting down; another one, or the same in a moment, will answer."""

    reason = "DRAINING"


class NumericsError(PrecallError):
    """The model answered NaN, infinity or a zero vector."""

    reason = "NUMERICS"


class TenantQuarantined(PrecallError):
    """The tenant's file is damaged; an operator must restore it."""

    reason = "TENANT_QUARANTINED"


def _tree(root: type[PrecallError]) -> Iterator[type[PrecallError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


BY_REASON: Final[dict[str, type[PrecallError]]] = {kind.reason: kind for kind in _tree(PrecallError)}

BY_CODE: Final[dict[grpc.StatusCode, type[PrecallError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: InvalidInput,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNIMPLEMENTED: NotSupported,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
}
"""What a status code means when the reason is missing or newer than this client."""


def from_rpc_error(error: grpc.aio.AioRpcError) -> PrecallError:
    """The error of this tree that a failed call stands for."""
    trailers = {str(key): value for key, value in error.trailing_metadata() or ()}
    reason = _text(trailers.get(REASON_KEY))
    code = error.code()
    kind = BY_REASON.get(reason) or BY_CODE.get(code, PrecallError)
    message = error.details() or code.name
    if not reason and code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in message:
        # gRPC's own word for a message over a size limit; to send it again would be refused again.
        return InvalidInput(
            f"{message}: split the request, or raise max_message_bytes where it was refused", code=code
        )
    if kind is Unauthenticated:
        # The server speaks of what its wire is sent; a caller has an argument and a variable to look at.
        message = (
            "the server takes no such API key, or takes it no more: check api_key "
            "(on the command line --api-key, PRECALL_API_KEY)"
        )
    if issubclass(kind, Overloaded):
        return kind(
            message,
            reason=reason or None,
            code=code,
            retry_after_seconds=_seconds(_text(trailers.get(PUSHBACK_KEY))),
        )
    return kind(message, reason=reason or None, code=code)


def _text(value: str | bytes | None) -> str:
    if value is None:
        return ""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _seconds(milliseconds: str) -> float | None:
    """None when nothing usable was said; a negative pushback means: do not retry."""
    try:
        return float(milliseconds) / 1000.0 if float(milliseconds) >= 0 else None
    except ValueError:
        return None
