"""The right to serve cached items, for a while."""

from precall.client.clock import Clock


class Lease:
    """Granted by the server for one stream, counted from the moment the client *sent* the renewal.

    So the lease ends on the client before it ends on the server, however long the reply was on its way.
    Invariant: the end never moves back, and an ungranted lease is not fresh.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = float("-inf")

    def renewed_from(self, sent_at: float, lease_seconds: float) -> None:
        """A grant of ``lease_seconds`` for a request sent at ``sent_at`` (``Clock.elapsed``); 0: refused."""
        if lease_seconds > 0:
            self._end = max(self._end, sent_at + lease_seconds)

    @property
    def fresh(self) -> bool:
        return self._clock.elapsed() < self._end

    @property
    def remaining(self) -> float:
        """Seconds left, 0 when it ran out."""
        return max(self._end - self._clock.elapsed(), 0.0)
