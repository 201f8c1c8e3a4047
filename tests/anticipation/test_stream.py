"""One client's stream: order, heartbeats, confirmation, and who is cut off."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.anticipation.events import Heartbeat, SessionEnded
from precall.engine.anticipation.lease import Lease
from precall.engine.anticipation.observer import SilentObserver
from precall.engine.anticipation.stream import NEVER, Stream
from tests.fakes.clock import FakeClock, LoopClock
from tests.fakes.world import CARD

Run = Callable[[Coroutine[Any, Any, Any]], Any]

BODY = SessionEnded("s", "for the test")


def stream(clock: Any, *, lease: float = 10.0, patience: float = 1.0, capacity: int = 100) -> Stream:
    return Stream("stream", "tenant", CARD, Lease(clock, lease), clock, patience=patience, capacity=capacity)


def beat() -> Heartbeat:
    return Heartbeat(7, 0.0)


class TestOrder:
    def test_events_come_in_the_order_of_sending_without_gaps(self, run_on_virtual_clock: Run) -> None:
        async def scenario() -> None:
            sender = stream(LoopClock())
            assert [sender.send(SessionEnded(str(n), "")) for n in range(5)] == [1, 2, 3, 4, 5]
            events = [await sender.next(beat, 1.0) for _ in range(5)]
            assert [event.sequence for event in events if event] == [1, 2, 3, 4, 5]
            assert [event.body.session_id for event in events if event] == list("01234")  # type: ignore[union-attr]
            assert sender.sent == 5

        run_on_virtual_clock(scenario())

    def test_a_heartbeat_takes_a_sequence_and_comes_after_the_interval(
        self, run_on_virtual_clock: Run
    ) -> None:
        async def scenario() -> None:
            loop = asyncio.get_running_loop()
            sender = stream(LoopClock())
            sender.send(BODY)
            first = await sender.next(beat, 2.0)
            assert first is not None and first.body is BODY and loop.time() == 0.0
            second = await sender.next(beat, 2.0)
            assert second is not None and second.body == beat() and second.sequence == 2
            assert loop.time() == 2.0
            loop.call_later(0.5, lambda: sender.send(BODY))
            third = await sender.next(beat, 2.0)
            assert third is not None and third.body is BODY and third.sequence == 3
            assert loop.time() == 2.5

        run_on_virtual_clock(scenario())

    def test_what_was_queued_before_the_end_is_delivered_and_nothing_after(
        self, run_on_virtual_clock: Run
    ) -> None:
        async def scenario() -> None:
            sender = stream(LoopClock())
            sender.send(BODY)
            sender.end("over")
            assert sender.send(BODY) == NEVER
            assert not sender.open and sender.ended_because == "over"
            sender.end("again")
            assert sender.ended_because == "over"
            event = await sender.next(beat, 1.0)
            assert event is not None and event.sequence == 1
            assert await sender.next(beat, 1.0) is None

        run_on_virtual_clock(scenario())

    def test_the_end_wakes_a_waiting_connection(self, run_on_virtual_clock: Run) -> None:
        async def scenario() -> None:
            sender = stream(LoopClock())
            asyncio.get_running_loop().call_later(0.25, sender.end, "over")
            assert await sender.next(beat, 60.0) is None
            assert asyncio.get_running_loop().time() == 0.25

        run_on_virtual_clock(scenario())


class TestOverflow:
    def test_a_client_that_does_not_read_is_cut_off(self) -> None:
        sender = stream(FakeClock(), capacity=3)
        assert [sender.send(BODY) for _ in range(4)] == [1, 2, 3, NEVER]
        assert not sender.open

    def test_what_did_not_fit_is_never_confirmed_by_applying_what_did(
        self, run_on_virtual_clock: Run
    ) -> None:
        """The client applies all that was queued; the invalidation was not: only its lease ends the wait."""

        async def scenario() -> None:
            clock = LoopClock()
            sender = stream(clock, capacity=2)
            sender.send(BODY)
            sender.send(BODY)
            sender.lease.grant()
            lost = sender.send(BODY, confirm=True)
            sender.acknowledge(2)
            await Confirmation({sender: lost}, clock, SilentObserver()).wait()
            assert asyncio.get_running_loop().time() == pytest.approx(10.0)
            assert sender.behind, "an ended stream's lease must not be renewed"

        run_on_virtual_clock(scenario())


class TestBehind:
    def test_an_unconfirmed_event_holds_the_lease_back_after_the_patience(self) -> None:
        clock = FakeClock()
        sender = stream(clock, patience=1.0)
        sender.send(BODY)
        clock.advance(50)
        assert not sender.behind, "nobody waits for this event"
        first = sender.send(BODY, confirm=True)
        clock.advance(0.9)
        second = sender.send(BODY, confirm=True)
        assert not sender.behind
        clock.advance(0.2)
        assert sender.behind
        sender.acknowledge(first)
        assert not sender.behind, "the second has been waited for for 0.2 s only"
        clock.advance(1.0)
        assert sender.behind
        sender.acknowledge(second)
        assert not sender.behind

    def test_an_event_given_up_on_must_be_applied_first(self, run_on_virtual_clock: Run) -> None:
        async def scenario() -> None:
            sender = stream(LoopClock(), patience=100.0)
            event = sender.send(BODY, confirm=True)
            await sender.wait_applied(event)  # no lease was ever granted: returns at once
            assert asyncio.get_running_loop().time() == 0.0
            assert sender.behind
            sender.acknowledge(event)
            assert not sender.behind

        run_on_virtual_clock(scenario())

    @given(claimed=st.lists(st.integers(-3, 12), max_size=8))
    def test_an_acknowledgement_never_goes_back_nor_beyond_what_was_sent(self, claimed: list[int]) -> None:
        sender = stream(FakeClock())
        for _ in range(5):
            sender.send(BODY)
        reached = 0
        for sequence in claimed:
            sender.acknowledge(sequence)
            reached = max(reached, min(sequence, 5))
            assert sender.applied == reached


class TestConfirmation:
    def test_waits_for_the_slowest_stream_that_applies(self, run_on_virtual_clock: Run) -> None:
        async def scenario() -> None:
            loop, clock = asyncio.get_running_loop(), LoopClock()
            streams = [stream(clock) for _ in range(3)]
            waiting = {}
            for number, sender in enumerate(streams):
                sender.lease.grant()
                waiting[sender] = sender.send(BODY, confirm=True)
                loop.call_later(number + 1, sender.acknowledge, 1)
            await Confirmation(waiting, clock, SilentObserver()).wait()
            assert loop.time() == 3.0

        run_on_virtual_clock(scenario())

    def test_an_earlier_acknowledgement_does_not_end_the_wait(self, run_on_virtual_clock: Run) -> None:
        async def scenario() -> None:
            loop, clock = asyncio.get_running_loop(), LoopClock()
            sender = stream(clock)
            sender.lease.grant()
            sender.send(BODY)
            event = sender.send(BODY, confirm=True)
            loop.call_later(1, sender.acknowledge, event - 1)
            loop.call_later(2, sender.acknowledge, event)
            await Confirmation({sender: event}, clock, SilentObserver()).wait()
            assert loop.time() == 2.0

        run_on_virtual_clock(scenario())

    @pytest.mark.parametrize("ends", [False, True])
    def test_a_vanished_client_is_waited_for_until_its_lease_ran_out_and_no_longer(
        self, ends: bool, run_on_virtual_clock: Run
    ) -> None:
        async def scenario() -> None:
            loop, clock = asyncio.get_running_loop(), LoopClock()
            sender = stream(clock, lease=10.0)
            sender.lease.grant()
            await asyncio.sleep(4.0)
            event = sender.send(BODY, confirm=True)
            if ends:
                sender.end("gone")
            await Confirmation({sender: event}, clock, SilentObserver()).wait()
            assert loop.time() == pytest.approx(10.0)

        run_on_virtual_clock(scenario())

    def test_a_renewal_meanwhile_prolongs_the_wait(self, run_on_virtual_clock: Run) -> None:
        """A renewal within the patience was rightly granted, so its lease counts."""

        async def scenario() -> None:
            loop, clock = asyncio.get_running_loop(), LoopClock()
            sender = stream(clock, lease=10.0)
            sender.lease.grant()
            event = sender.send(BODY, confirm=True)
            loop.call_later(0.5, sender.lease.grant)
            await Confirmation({sender: event}, clock, SilentObserver()).wait()
            assert loop.time() == pytest.approx(10.5)

        run_on_virtual_clock(scenario())

    def test_nobody_to_wait_for_is_no_wait(self, run_on_virtual_clock: Run) -> None:
        run_on_virtual_clock(Confirmation({}, FakeClock(), SilentObserver()).wait())


class TestLease:
    def test_runs_out_after_its_seconds_and_is_renewed_by_a_grant(self) -> None:
        clock = FakeClock()
        lease = Lease(clock, 10.0)
        assert lease.remaining == 0.0
        assert lease.grant() == 10.0
        clock.advance(9.0)
        assert lease.remaining == pytest.approx(1.0)
        lease.grant()
        clock.advance(9.5)
        assert lease.remaining == pytest.approx(0.5)
        clock.advance(5.0)
        assert lease.remaining == 0.0

    def test_covers_another_one_and_never_gets_shorter_by_it(self) -> None:
        clock = FakeClock()
        long, short = Lease(clock, 10.0), Lease(clock, 2.0)
        long.grant()
        short.grant()
        long.cover(short)
        assert long.remaining == 10.0
        short.cover(long)
        assert short.remaining == 10.0

    def test_has_nothing_to_do_with_the_time_of_day(self) -> None:
        class JumpingClock(FakeClock):
            def wall(self) -> float:
                raise AssertionError("a jump of the wall clock would end a lease, or prolong it")

        clock = JumpingClock()
        lease = Lease(clock, 10.0)
        lease.grant()
        clock.advance(4.0)
        assert lease.remaining == 6.0
