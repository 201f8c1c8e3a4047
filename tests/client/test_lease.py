"""A lease counts from the sending, and never comes back by itself."""

from precall.client.lease import Lease


class StoppedClock:
    def __init__(self) -> None:
        self.now = 100.0

    def elapsed(self) -> float:
        return self.now

    def wall(self) -> float:
        raise AssertionError("a lease has nothing to do with the time of day")


def test_it_is_not_fresh_before_it_was_granted() -> None:
    lease = Lease(StoppedClock())
    assert not lease.fresh and lease.remaining == 0.0
    lease.renewed_from(100.0, 0.0)
    assert not lease.fresh, "zero means: not renewed"


def test_it_counts_from_the_moment_the_request_was_sent() -> None:
    clock = StoppedClock()
    lease = Lease(clock)
    clock.now = 103.0  # the reply took three seconds
    lease.renewed_from(100.0, 10.0)
    assert lease.remaining == 7.0
    clock.now = 110.0
    assert not lease.fresh, "the end itself is outside"


def test_a_late_reply_to_an_older_renewal_does_not_shorten_it() -> None:
    clock = StoppedClock()
    lease = Lease(clock)
    lease.renewed_from(105.0, 10.0)
    lease.renewed_from(100.0, 10.0)
    assert lease.remaining == 15.0
