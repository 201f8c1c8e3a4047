"""What a client tells those who watch it: tracers, dashboards, tests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from precall.client.read import Read
from precall.client.state import SessionState


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session was entered. ``state`` tells how it stands whenever it is called, from any thread."""

    session_id: str
    conversation_id: str
    state: Callable[[], SessionState]


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session was left."""

    session_id: str


@dataclass(frozen=True, slots=True)
class ReadStarted:
    """``number`` counts the reads of a session from 1."""

    session_id: str
    number: int


@dataclass(frozen=True, slots=True)
class ReadFinished:
    """The read of the same ``number`` ended: with ``read``, which says where its time went, or ``error``.

    The error may be a cancellation (``asyncio.CancelledError``).
    """

    session_id: str
    number: int
    read: Read | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ReadChecked:
    """A read that the cache had answered by itself was compared with the server's answer, afterwards.

    ``strict``: too many of the last ones were wrong, so for now the server is asked about such reads.
    """

    session_id: str
    wrong: bool
    strict: bool


@dataclass(frozen=True, slots=True)
class PushApplied:
    """The last part of a push came, with so many items. ``lead_seconds``: since the observation that caused
    the push, if one did.
    """

    session_id: str
    push_id: int
    items: int
    lead_seconds: float | None


@dataclass(frozen=True, slots=True)
class StreamUp:
    """A connection to the server stands."""

    stream_id: str
    model_fingerprint: str


@dataclass(frozen=True, slots=True)
class StreamDown:
    """It is lost, or the client was closed."""

    stream_id: str


ClientEvent: TypeAlias = (
    SessionOpened
    | SessionClosed
    | ReadStarted
    | ReadFinished
    | ReadChecked
    | PushApplied
    | StreamUp
    | StreamDown
)

ClientHook: TypeAlias = Callable[[ClientEvent], None]
"""Called where things happen, on the client's event loop: it must return at once, and need not know every
event. A read's two events come in the task that reads. What it raises is logged, once, and harms nobody."""
