"""Which texts go to the device next, and which are refused. Policy only: no thread, no clock of its own, no
I/O.

A text's way: ``admit`` (a ticket for the caller, a work for the device) -> ``take`` (a batch) ->
``complete``. A ticket leaves earlier by ``cancel``, or when its deadline passes before its work is taken.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from precall.engine.batching.fair_share import FairShare
from precall.engine.batching.lane import Lane
from precall.engine.batching.pace import Pace
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import (
    Batch,
    EmbeddingRequest,
    QueueCounts,
    Ticket,
    TicketState,
    Turn,
    Work,
    WorkClass,
)
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import InvalidInput, Overloaded


class WorkQueue:
    """Not thread-safe: its owner holds a lock around each call.

    Invariants (``check_integrity``): equal texts of equal role are one work; a waiting work stands in exactly
    one lane and has a waiting ticket; the waiting tokens of a class are the sum over its waiting tickets and,
    but for probes, never above the limit; no expired or cancelled ticket belongs to a work.
    """

    def __init__(self, settings: BatchingSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._works: dict[tuple[TextRole, bytes], Work] = {}
        self._running: set[Work] = set()
        self._lanes = {work_class: Lane(settings) for work_class in WorkClass}
        self._share = FairShare[WorkClass](settings.class_weights)
        self._class_clocks = dict.fromkeys(WorkClass, 0.0)
        self._deadlines: list[tuple[float, int, Ticket]] = []
        self._ticket_numbers = itertools.count()
        self._waiting_tokens = dict.fromkeys(WorkClass, 0)
        self._waiting_tickets = 0
        self._counts = QueueCounts()
        self._paces = {work_class: Pace() for work_class in WorkClass}

    @property
    def waiting_tokens(self) -> int:
        """Tokens of all waiting tickets, those of shared works counted for each ticket."""
        return sum(self._waiting_tokens.values())

    def waiting_tokens_of(self, work_class: WorkClass) -> int:
        return self._waiting_tokens[work_class]

    @property
    def counts(self) -> QueueCounts:
        return self._counts

    @property
    def has_waiting(self) -> bool:
        return self._waiting_tickets > 0

    def has_waiting_of(self, classes: Collection[WorkClass]) -> bool:
        return any(not self._lanes[work_class].is_empty for work_class in classes)

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is on the device."""
        return not self._works

    def admit(self, requests: Sequence[EmbeddingRequest], *, beyond_limit: bool = False) -> list[Ticket]:
        """Take in all requests or none; a ticket each, in order. ``beyond_limit`` is for probes.

        Raises ``Overloaded`` when there is no room now, ``InvalidInput`` when there never will be.
        """
        if not beyond_limit:
            self._require_room(requests)
        self._counts = replace(self._counts, admitted=self._counts.admitted + len(requests))
        return [self._admit_one(request) for request in requests]

    def require_room(self, work_class: WorkClass, tokens: int, texts: int) -> None:
        """For who knows before tokenising that there will be ``tokens`` or more, in ``texts`` texts.

        Raises as ``admit`` does; nothing is kept for the caller.
        """
        limit = self._settings.max_waiting_tokens
        if tokens > limit:
            raise InvalidInput(
                f"the request has {tokens} tokens and the queue holds {limit}: split it into smaller ones",
                metadata={"tokens": str(tokens), "limit": str(limit)},
            )
        waiting = self._waiting_tokens[work_class]
        excess = waiting + tokens - limit
        if excess > 0:
            self._counts = replace(self._counts, refused=self._counts.refused + texts)
            retry_after = self._paces[work_class].seconds_for(excess)
            raise Overloaded(
                f"{waiting} tokens of class {work_class.value} are waiting and the queue holds {limit}: "
                f"send the request again in {retry_after:.1f} s",
                retry_after_seconds=retry_after,
                metadata={"waiting_tokens": str(waiting), "limit": str(limit)},
            )

    def take(self, classes: Collection[WorkClass] = tuple(WorkClass)) -> Turn:
        """The next batch, of the class and tenants whose turn it is; tickets that came too late beside it.

        ``classes``, the most urgent first, are those that whoever asks computes.
        """
        expired = self.expire()
        waiting = [work_class for work_class in classes if not self._lanes[work_class].is_empty]
        if not waiting:
            return Turn(None, expired)
        work_class = min(waiting, key=self._share.clock)  # on a tie min keeps the first: the most urgent
        lane = self._lanes[work_class]
        works = lane.take()
        self._share.serve(work_class, sum(work.tokens for work in works))
        self._note_if_empty(work_class)
        for work in works:
            self._running.add(work)
            for ticket in work.tickets:
                self._stop_waiting(ticket, TicketState.RUNNING)
        return Turn(Batch(tuple(works), work_class, self._clock(), self._settings.padded), expired)

    def complete(self, batch: Batch, device_seconds: float) -> list[list[Ticket]]:
        """The batch is computed, or failed. The live tickets of each of its works, in the batch's order."""
        self._paces[batch.work_class].observe(batch.tokens, device_seconds)
        finished: list[list[Ticket]] = []
        for work in batch.works:
            self._running.remove(work)
            del self._works[work.key]
            for ticket in work.tickets:
                ticket.state = TicketState.DONE
            finished.append(work.tickets)
        done = sum(len(tickets) for tickets in finished)
        self._counts = replace(self._counts, done=self._counts.done + done)
        return finished

    def cancel(self, tickets: Iterable[Ticket]) -> int:
        """Drop tickets whose caller has gone; how many had not been answered yet. Twice is as once."""
        dropped = sum(1 for ticket in tickets if self._drop(ticket, TicketState.CANCELLED))
        self._counts = replace(self._counts, cancelled=self._counts.cancelled + dropped)
        return dropped

    def expire(self) -> tuple[Ticket, ...]:
        """Drop and return the waiting tickets whose deadline has passed."""
        now = self._clock()
        expired: list[Ticket] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            ticket = heapq.heappop(self._deadlines)[2]
            if ticket.state is TicketState.WAITING and self._drop(ticket, TicketState.EXPIRED):
                expired.append(ticket)
        self._counts = replace(self._counts, expired=self._counts.expired + len(expired))
        return tuple(expired)

    def _require_room(self, requests: Sequence[EmbeddingRequest]) -> None:
        tokens: Counter[WorkClass] = Counter()
        for request in requests:
            tokens[request.work_class] += len(request.text.token_ids)
        for work_class, asked in tokens.items():
            self.require_room(work_class, asked, len(requests))

    def _admit_one(self, request: EmbeddingRequest) -> Ticket:
        key = (request.role, request.text.token_ids.tobytes())
        work = self._works.get(key)
        if work is None:
            work = Work(key, request.text, request.tenant, request.work_class)
            self._works[key] = work
            self._enter_lane(work)
        else:
            self._counts = replace(self._counts, shared=self._counts.shared + 1)
            self._make_urgent(work, request)
        ticket = Ticket(request, work, self._clock())
        work.tickets.append(ticket)
        if work in self._running:
            ticket.state = TicketState.RUNNING
            return ticket
        self._waiting_tokens[request.work_class] += ticket.tokens
        self._waiting_tickets += 1
        if request.deadline is not None:
            self._remember_deadline(request.deadline, ticket)
        return ticket

    def _make_urgent(self, work: Work, request: EmbeddingRequest) -> None:
        """A waiting work goes over to the line of whoever needs it sooner."""
        if work in self._running or request.work_class.urgency >= work.work_class.urgency:
            return
        self._leave_lane(work)
        work.tenant, work.work_class = request.tenant, request.work_class
        self._enter_lane(work)

    def _drop(self, ticket: Ticket, state: TicketState) -> bool:
        """Take an unanswered ticket out, and its work with it if nobody else waits for that."""
        work = ticket.work
        if ticket.state is TicketState.WAITING:
            self._stop_waiting(ticket, state)
        elif ticket.state is TicketState.RUNNING:
            ticket.state = state
        else:
            return False
        work.tickets.remove(ticket)
        if not work.tickets and work not in self._running:
            self._leave_lane(work)
            del self._works[work.key]
        return True

    def _stop_waiting(self, ticket: Ticket, state: TicketState) -> None:
        ticket.state = state
        self._waiting_tokens[ticket.request.work_class] -= ticket.tokens
        self._waiting_tickets -= 1

    def _enter_lane(self, work: Work) -> None:
        if work.work_class not in self._share:
            self._share.join(work.work_class, self._class_clocks[work.work_class])
        self._lanes[work.work_class].add(work)

    def _leave_lane(self, work: Work) -> None:
        self._lanes[work.work_class].remove(work)
        self._note_if_empty(work.work_class)

    def _note_if_empty(self, work_class: WorkClass) -> None:
        """A class with nothing waiting leaves its share; what it has used it remembers for its return."""
        if self._lanes[work_class].is_empty:
            self._class_clocks[work_class] = self._share.clock(work_class)
            self._share.leave(work_class)

    def _remember_deadline(self, deadline: float, ticket: Ticket) -> None:
        heapq.heappush(self._deadlines, (deadline, next(self._ticket_numbers), ticket))
        # Tickets that were answered in time stay in the heap until their deadline: do not let them pile up.
        if len(self._deadlines) > 2 * self._waiting_tickets + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[2].state is TicketState.WAITING]
            heapq.heapify(self._deadlines)

    def check_integrity(self) -> None:
        """Raise ``AssertionError`` if an invariant is broken."""
        waiting_works = [work for work in self._works.values() if work not in self._running]
        waiting = [ticket for work in waiting_works for ticket in work.tickets]
        assert self._running <= set(self._works.values())
        by_class = dict.fromkeys(WorkClass, 0)
        for ticket in waiting:
            by_class[ticket.request.work_class] += ticket.tokens
        assert self._waiting_tokens == by_class
        assert self._waiting_tickets == len(waiting)
        assert all(ticket.state is TicketState.WAITING for ticket in waiting)
        assert all(ticket.state is TicketState.RUNNING for work in self._running for ticket in work.tickets)
        in_lanes = [work for lane in self._lanes.values() for work in lane]
        assert len(in_lanes) == len(waiting_works) and set(in_lanes) == set(waiting_works)
        for work_class, lane in self._lanes.items():
            lane.check_integrity(work_class)
            assert lane.is_empty == (work_class not in self._share)
        for key, work in self._works.items():
            assert work.key == key and all(ticket.work is work for ticket in work.tickets)
        for work in waiting_works:
            assert work.tickets
            assert work.work_class.urgency <= min(t.request.work_class.urgency for t in work.tickets)
        counts = self._counts
        alive = sum(len(work.tickets) for work in self._works.values())
        assert counts.admitted == alive + counts.done + counts.expired + counts.cancelled
