"""How long a client may serve what it was pushed."""

from precall.engine.clock import Clock


class Lease:
    """The server's side of one stream's lease.

    The client counts the same span from the moment it *sent* the renewal, the server from the moment it
    granted it, which is later: so the lease always ends on the client first, whatever the network does.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._until = float("-inf")
        self.seconds = seconds

    def grant(self) -> float:
        """Renew; returns the seconds granted."""
        self._until = self._clock.monotonic() + self.seconds
        return self.seconds

    @property
    def remaining(self) -> float:
        """Seconds that the client may still serve for; 0 when it may not."""
        return max(0.0, self._until - self._clock.monotonic())

    def cover(self, other: "Lease") -> None:
        """Last at least as long as another lease that the same client may still be serving under."""
        self._until = max(self._until, other._until)
