"""One connection as a session sees it: whose clock counts, and how a wait for a lease ends."""

import asyncio

from precall.client.stream import Stream
from precall.proto import anticipation_pb2
from precall.scoring.version import SCORING_VERSION


class TwoClocks:
    """Wall and span, each moved by hand."""

    def __init__(self) -> None:
        self.span = 50.0
        self.day = 1_000_000.0

    def elapsed(self) -> float:
        return self.span

    def wall(self) -> float:
        return self.day


def opened(server_time: float | None = None) -> anticipation_pb2.StreamOpened:
    message = anticipation_pb2.StreamOpened(scoring_version=SCORING_VERSION)
    message.heartbeat_interval.FromNanoseconds(10**9)
    if server_time is not None:
        message.server_time.FromNanoseconds(int(server_time * 1e9))
    return message


def test_a_jump_of_this_computers_wall_clock_moves_no_memory_in_or_out_of_its_time() -> None:
    clock = TwoClocks()
    stream = Stream("s", opened(2_000_000.0), clock=clock)
    clock.span += 7.0
    clock.day -= 86_400.0
    assert stream.server_now == 2_000_007.0


def test_time_that_the_process_was_suspended_for_has_passed_on_the_server_too() -> None:
    clock = TwoClocks()
    stream = Stream("s", opened(2_000_000.0), clock=clock)
    stream.note_renewed(stream.note_renewal_sent(), 10.0)
    assert stream.lease.fresh and stream.alive
    clock.span += 3_600.0  # the wall clock of a suspended machine need not have been set yet
    assert not stream.lease.fresh and not stream.alive
    assert stream.server_now == 2_003_600.0


def test_one_late_heartbeat_does_not_move_the_servers_time_and_a_jump_there_is_followed() -> None:
    clock = TwoClocks()
    stream = Stream("s", opened(2_000_000.0), clock=clock)
    for _ in range(4):
        stream.note_server_time(2_000_000.0)
    stream.note_server_time(1_999_990.0)  # ten seconds on its way
    assert stream.server_now == 2_000_000.0
    for _ in range(3):
        stream.note_server_time(2_500_000.0)
    assert stream.server_now == 2_500_000.0


def test_a_server_that_does_not_tell_the_time_is_taken_to_have_ours() -> None:
    clock = TwoClocks()
    assert Stream("s", opened(), clock=clock).server_now == clock.day


async def test_who_waits_for_a_lease_is_told_of_the_end_of_the_connection() -> None:
    stream = Stream("s", opened(), clock=TwoClocks())
    waiting = asyncio.create_task(stream.leased())
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.close()
    async with asyncio.timeout(10):
        assert await waiting is False
    granted = Stream("t", opened(), clock=TwoClocks())
    granted.note_renewed(granted.note_renewal_sent(), 10.0)
    assert await granted.leased() is True
