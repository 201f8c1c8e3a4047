"""Whether it is worth waiting for the server."""

from typing import Final

from precall.client.clock import Clock
from precall.client.errors import DeadlineExceeded, ModelChanged, PrecallError, Unavailable

_PROBE_SECONDS: Final = 1.0


class Circuit:
    """Shared by the sessions of one client, so that in an outage only the first read waits out its deadline.

    Open when the stream is lost *and* the last call found no server. A stream that opens, or one call that
    succeeds, closes it; while it is open one probe a second goes out in the background.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing = False
        self._probed_at = float("-inf")

    def is_open(self, *, connected: bool) -> bool:
        return self._failing and not connected

    def note_success(self) -> None:
        self._failing = False

    def note_failure(self, error: PrecallError) -> None:
        """Only what says that no server answered counts: a refusal is an answer."""
        if isinstance(error, Unavailable | DeadlineExceeded) and not isinstance(error, ModelChanged):
            self._failing = True
            self._probed_at = self._clock.elapsed()

    def take_probe(self) -> bool:
        """True for the one caller that should try the server now."""
        now = self._clock.elapsed()
        if now - self._probed_at < _PROBE_SECONDS:
            return False
        self._probed_at = now
        return True
