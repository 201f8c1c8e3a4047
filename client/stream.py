"""One connection of the Watch stream, as the sessions see it."""

import asyncio
import logging
from collections import deque
from typing import Final

from precall.client import convert
from precall.client.clock import Clock
from precall.client.lease import Lease
from precall.proto import anticipation_pb2
from precall.scoring.version import SCORING_VERSION

_log = logging.getLogger(__name__)

SILENT_INTERVALS: Final = 3
"""Heartbeats missed in a row before the stream counts as lost."""
_OFFSETS_KEPT: Final = 5


class Stream:
    """Made when the server's StreamOpened arrives; never reopened: a new connection is a new Stream.

    The lease belongs to the stream, and only a renewal grants it. What another stream brought is served under
    *that* stream's lease: the server waits for that one before it acks a delete.
    """

    def __init__(self, stream_id: str, opened: anticipation_pb2.StreamOpened, *, clock: Clock) -> None:
        self.stream_id = stream_id
        self.model_fingerprint = opened.model_fingerprint
        self.model_scripts = tuple(opened.model_scripts)
        self.scores_alike = opened.scoring_version == SCORING_VERSION
        if not self.scores_alike:
            _log.warning(
                "server and client rank by different formulas (%d here, %d there), so the cache answers no "
                "read by itself: install the client that fits the server",
                SCORING_VERSION,
                opened.scoring_version,
            )
        self.heartbeat_seconds = convert.seconds_from_wire(opened.heartbeat_interval) or 1.0
        self.maximum_age = (
            convert.seconds_from_wire(opened.maximum_age) if opened.HasField("maximum_age") else float("inf")
        )
        self.lease = Lease(clock)
        self.applied_sequence = 0
        self._clock = clock
        self._leased = asyncio.Event()
        self._renewal_sent_at = float("-inf")
        self._closed = asyncio.Event()
        self._heard_at = clock.elapsed()
        self._offsets: deque[float] = deque(maxlen=_OFFSETS_KEPT)  # of the server's wall from our `elapsed`
        if opened.HasField("server_time"):
            self.note_server_time(convert.unix_seconds(opened.server_time))

    @property
    def silence_seconds(self) -> float:
        """How long a silence is borne."""
        return SILENT_INTERVALS * self.heartbeat_seconds

    @property
    def alive(self) -> bool:
        """Connected, and heard from within the last heartbeats."""
        return not self._closed.is_set() and self._clock.elapsed() - self._heard_at <= self.silence_seconds

    @property
    def seconds_since_heard(self) -> float:
        return self._clock.elapsed() - self._heard_at

    @property
    def server_now(self) -> float:
        """Unix seconds by the server's clock, as the last heartbeats had it (their median).

        Counted on by ``Clock.elapsed``: whatever is done to this computer's wall clock, nothing that is held
        begins or ends to be true by it.
        """
        if not self._offsets:
            return self._clock.wall()
        return self._clock.elapsed() + sorted(self._offsets)[len(self._offsets) // 2]

    @property
    def renewal_due(self) -> bool:
        """No renewal was sent within the last heartbeat: a busy stream has no idle moment to beat in."""
        return self._clock.elapsed() - self._renewal_sent_at >= self.heartbeat_seconds

    def is_like(self, other: "Stream") -> bool:
        """Whether what came over this one could have come over the other: one model, rules alike."""
        return (
            self.scores_alike
            and other.scores_alike
            and self.model_fingerprint == other.model_fingerprint
            and self.model_scripts == other.model_scripts
            and self.maximum_age == other.maximum_age
        )

    def note_renewal_sent(self) -> float:
        """Returns the moment (``Clock.elapsed``) from which its grant will count."""
        self._renewal_sent_at = self._clock.elapsed()
        return self._renewal_sent_at

    def note_renewed(self, sent_at: float, lease_seconds: float) -> None:
        """The server granted a lease, or with 0 refused it."""
        self.lease.renewed_from(sent_at, lease_seconds)
        if lease_seconds > 0:
            self._leased.set()

    async def leased(self) -> bool:
        """Wait until a lease was granted for the first time; False when the connection was lost."""
        await self._leased.wait()
        return not self._closed.is_set()

    def note_applied(self, sequence: int) -> None:
        """An event was applied to the caches."""
        self.applied_sequence = sequence
        self._heard_at = self._clock.elapsed()

    def note_server_time(self, unix_seconds: float) -> None:
        self._offsets.append(unix_seconds - self._clock.elapsed())

    def close(self) -> None:
        self._closed.set()
        self._leased.set()

    async def closed(self) -> None:
        """Wait until the connection is lost."""
        await self._closed.wait()
