"""The one exception tree of the engine.

Every error has a ``reason`` in UPPER_SNAKE, which travels to clients as ``google.rpc.ErrorInfo.reason``
(domain ``precall``), and a message that says what to change. ``metadata`` holds machine-readable facts
(counts, limits, ids of the caller's own input) and never the text of a memory or a secret.
"""

import copy
from collections.abc import Mapping
from typing import Self


class PrecallError(Exception):
    """Root of the tree; ``reason`` names the kind of failure."""

    reason = "INTERNAL"

    def __init__(self, message: str, *, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})

    def at(self, position: int) -> Self:
        """The same error, said of one item of a batch."""
        located = copy.copy(self)
        located.message = f"item {position}: {self.message}"
        located.args = (located.message,)
        located.metadata = self.metadata | {"position": str(position)}
        return located


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


class FingerprintMismatch(PrecallError):
    """Vectors of another model were offered to an index or asked from an encoder."""

    reason = "MODEL_FINGERPRINT_MISMATCH"


class ModelChanged(PrecallError):
    """A vector was made for a model that serves the tenant no longer: prepare the request again."""

    reason = "MODEL_CHANGED"


class MigrationRefused(PrecallError):
    """The tenant's migration is not in a state that allows this step; the message says what to do first."""

    reason = "MIGRATION_REFUSED"


class NotFound(PrecallError):
    """What was named does not exist, or the caller may not see it: the two are not told apart."""

    reason = "NOT_FOUND"


class TenantNotFound(NotFound):
    reason = "TENANT_NOT_FOUND"


class SessionNotFound(NotFound):
    """The server does not know the session (it restarted, or the stream ended): open it again."""

    reason = "SESSION_NOT_FOUND"


class StreamNotFound(NotFound):
    reason = "STREAM_NOT_FOUND"


class AlreadyExists(PrecallError):
    reason = "ALREADY_EXISTS"


class VersionNotReached(PrecallError):
    """``min_version`` is ahead of what this server holds."""

    reason = "VERSION_NOT_REACHED"


class Unauthenticated(PrecallError):
    reason = "UNAUTHENTICATED"


class PermissionDenied(PrecallError):
    reason = "PERMISSION_DENIED"


class NotSupported(PrecallError):
    """The contract names it, and this server does not do it yet."""

    reason = "NOT_SUPPORTED"


class Overloaded(PrecallError):
    """Refused before any work was done; ``retry_after_seconds`` is an estimate of when there is room."""

    reason = "OVERLOADED"

    def __init__(
        self, message: str, *, retry_after_seconds: float, metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, metadata=metadata)
        self.retry_after_seconds = retry_after_seconds


class DeadlineExceeded(PrecallError):
    """The request's deadline passed before its turn came; the device never saw it."""

    reason = "DEADLINE_EXCEEDED"


class Cancelled(PrecallError):
    reason = "CANCELLED"


class ModelUnavailable(PrecallError):
    """No usable model: its files are missing, do not match their hash, or its worker is down."""

    reason = "MODEL_UNAVAILABLE"


class NumericsError(PrecallError):
    """The model answered NaN, infinity or a zero vector."""

    reason = "NUMERICS"


class StorageUnavailable(PrecallError):
    """The disk refused a write (full, read-only, failing). Nothing of the request was kept."""

    reason = "STORAGE_UNAVAILABLE"


class TenantQuarantined(PrecallError):
    """The tenant's file is damaged. Other tenants are served; an operator must restore this one."""

    reason = "TENANT_QUARANTINED"


class Draining(PrecallError):
    """The server is shutting down; another one, or the same in a moment, will answer."""

    reason = "DRAINING"


class ConfigurationError(PrecallError):
    """A setting is wrong; the message says which and what it may be."""

    reason = "CONFIGURATION"
