"""Which texts go to the device next, and which are refused. Policy only: no thread, no clock of its own, no
I/O.

A text's way: ``admit`` (a ticket for the caller, a work for the device) -> ``take`` (a batch) ->
``complete``. A ticket leaves earlier by ``cancel``, or when its deadline passes before its work is taken.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from precall.engine.batching.deadlines import Deadlines
from precall.engine.batching.fair_share import FairShare
from precall.engine.batching.lane import Lane
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.waiting_room import WaitingRoom
from precall.engine.batching.work import (
    Batch,
    EmbeddingRequest,
    QueueCounts,
    Ticket,
    TicketState,
    Turn,
    Work,
    WorkClass,
    WorkKey,
)
from precall.engine.errors import Overloaded

_ASSUMED_TOKENS_A_SECOND: Final = 2_000.0
"""Until the first batch: a cautious one."""

ONE_WORKER: Final[Sequence[Sequence[WorkClass]]] = (tuple(WorkClass),)


class WorkQueue:
    """Not thread-safe: its owner holds a lock around each call.

    Invariants (``check_integrity``): a waiting text of one tenant and role is one work; a waiting work stands
    in exactly one lane and has a waiting ticket; the waiting tokens of a class, and of a tenant in it, are
    the sum over the waiting tickets and, but for probes, never above the limit; no expired or cancelled
    ticket belongs to a work.
    """

    def __init__(
        self,
        settings: BatchingSettings,
        clock: Callable[[], float],
        workers: Sequence[Collection[WorkClass]] = ONE_WORKER,
    ) -> None:
        """``workers`` says what each of the device's workers computes: every class, and none twice. Classes
        share a worker's time, so those of different workers owe each other nothing.
        """
        assert sorted(c.urgency for classes in workers for c in classes) == list(range(len(WorkClass)))
        self._settings = settings
        self._clock = clock
        self._worker_of = {c: worker for worker, classes in enumerate(workers) for c in classes}
        self._shares = [FairShare[WorkClass](settings.class_weights) for _ in workers]
        self._works: dict[WorkKey, Work] = {}
        self._running: set[Work] = set()
        self._lanes = {work_class: Lane(settings.of(work_class)) for work_class in WorkClass}
        self._class_clocks = dict.fromkeys(WorkClass, 0.0)
        self._deadlines = Deadlines()
        self._room = WaitingRoom(
            "tokens",
            limit=settings.max_waiting_tokens,
            tenant_limit=settings.tenant_waiting_tokens,
            assumed_pace=_ASSUMED_TOKENS_A_SECOND,
        )
        self._waiting_tickets = 0
        self._counts = QueueCounts()

    @property
    def waiting_tokens(self) -> int:
        """Tokens of all waiting tickets, those of shared works counted for each ticket."""
        return self._room.waiting

    def waiting_tokens_of(self, work_class: WorkClass) -> int:
        return self._room.waiting_of(work_class)

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
        return not self._works and not self._running

    def admit(self, requests: Sequence[EmbeddingRequest], *, beyond_limit: bool = False) -> list[Ticket]:
        """Take in all requests or none; a ticket each, in order. ``beyond_limit`` is for probes.

        Raises ``Overloaded`` when there is no room now, ``InvalidInput`` when there never will be.
        """
        if not beyond_limit:
            self._require_room(requests)
        self._counts = replace(self._counts, admitted=self._counts.admitted + len(requests))
        return [self._admit_one(request) for request in requests]

    def require_room(self, work_class: WorkClass, tenant: str, tokens: int, texts: int) -> None:
        """For who knows before tokenising that there will be ``tokens`` or more, in ``texts`` texts.

        Raises as ``admit`` does; nothing is kept for the caller.
        """
        self._require(work_class, {tenant: tokens}, texts)

    def take(self, classes: Collection[WorkClass] = tuple(WorkClass)) -> Turn:
        """The next batch, of the class and tenants whose turn it is; tickets that came too late beside it.

        ``classes``, the most urgent first, are those that whoever asks computes.
        """
        expired = self.expire()
        waiting = [work_class for work_class in classes if not self._lanes[work_class].is_empty]
        if not waiting:
            return Turn(None, expired)
        # On a tie min keeps the first: the most urgent.
        work_class = min(waiting, key=lambda waits: self._share_of(waits).clock(waits))
        works = self._lanes[work_class].take()
        self._share_of(work_class).serve(work_class, sum(work.tokens for work in works))
        self._note_if_empty(work_class)
        for work in works:
            self._running.add(work)
            for ticket in work.tickets:
                self._stop_waiting(ticket, TicketState.RUNNING)
        return Turn(Batch(tuple(works), work_class, self._clock(), self._settings.padded), expired)

    def complete(self, batch: Batch, device_seconds: float) -> list[list[Ticket]]:
        """The batch is computed, or failed. The live tickets of each of its works, in the batch's order."""
        self._room.observe(batch.work_class, batch.tokens, device_seconds)
        return self.abandon(batch)

    def abandon(self, batch: Batch) -> list[list[Ticket]]:
        """As ``complete``, for a batch of which nothing can be learnt. May follow a call of either that broke
        off.
        """
        finished: list[list[Ticket]] = []
        for work in batch.works:
            self._running.discard(work)
            if self._works.get(work.key) is work:
                del self._works[work.key]
            for ticket in work.tickets:
                ticket.state = TicketState.DONE
            finished.append(list(work.tickets))
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
        expired = self._deadlines.passed(self._clock())
        for ticket in expired:
            self._drop(ticket, TicketState.EXPIRED)
        self._counts = replace(self._counts, expired=self._counts.expired + len(expired))
        return tuple(expired)

    def _require_room(self, requests: Sequence[EmbeddingRequest]) -> None:
        tokens: dict[WorkClass, Counter[str]] = {}
        for request in requests:
            of_class = tokens.setdefault(request.work_class, Counter())
            of_class[request.tenant] += len(request.text.token_ids)
        for work_class, asked in tokens.items():
            self._require(work_class, asked, len(requests))

    def _require(self, work_class: WorkClass, tokens: Mapping[str, int], texts: int) -> None:
        try:
            self._room.require(work_class, tokens)
        except Overloaded:
            self._counts = replace(self._counts, refused=self._counts.refused + texts)
            raise

    def _admit_one(self, request: EmbeddingRequest) -> Ticket:
        # The tenant is part of it: whoever shared a text of another tenant would learn, by how soon the
        # answer comes, what that one has in flight, and would be served at the other's cost.
        key = (request.tenant, request.role, request.text.token_ids.tobytes())
        work = self._works.get(key)
        if work is None or self._runs_too_patiently(work, request):
            work = Work(key, request.text, request.tenant, request.work_class)
            self._works[key] = work
            self._enter_lane(work)
        else:
            self._counts = replace(self._counts, shared=self._counts.shared + 1)
            self._make_urgent(work, request)
        ticket = Ticket(request, work, self._clock())
        work.tickets[ticket] = None
        if work in self._running:
            ticket.state = TicketState.RUNNING
            return ticket
        self._room.enter(request.work_class, request.tenant, ticket.tokens)
        self._waiting_tickets += 1
        if request.deadline is not None:
            self._deadlines.add(request.deadline, ticket, self._waiting_tickets)
        return ticket

    def _runs_too_patiently(self, work: Work, request: EmbeddingRequest) -> bool:
        """Whether it is on a worker that gives way to the one that would compute the request."""
        return (
            work in self._running
            and request.work_class.urgency < work.work_class.urgency
            and self._worker_of[request.work_class] != self._worker_of[work.work_class]
        )

    def _make_urgent(self, work: Work, request: EmbeddingRequest) -> None:
        """A waiting work goes over to the line of whoever needs it sooner."""
        if work in self._running or request.work_class.urgency >= work.work_class.urgency:
            return
        self._leave_lane(work)
        work.work_class = request.work_class
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
        del work.tickets[ticket]
        if not work.tickets and work not in self._running:
            self._leave_lane(work)
            del self._works[work.key]
        return True

    def _stop_waiting(self, ticket: Ticket, state: TicketState) -> None:
        ticket.state = state
        self._room.leave(ticket.request.work_class, ticket.request.tenant, ticket.tokens)
        self._waiting_tickets -= 1

    def _share_of(self, work_class: WorkClass) -> FairShare[WorkClass]:
        return self._shares[self._worker_of[work_class]]

    def _enter_lane(self, work: Work) -> None:
        share = self._share_of(work.work_class)
        if work.work_class not in share:
            share.join(work.work_class, self._class_clocks[work.work_class])
        self._lanes[work.work_class].add(work)

    def _leave_lane(self, work: Work) -> None:
        self._lanes[work.work_class].remove(work)
        self._note_if_empty(work.work_class)

    def _note_if_empty(self, work_class: WorkClass) -> None:
        """A class with nothing waiting leaves its share; what it has used it remembers for its return."""
        if self._lanes[work_class].is_empty:
            share = self._share_of(work_class)
            self._class_clocks[work_class] = share.clock(work_class)
            share.leave(work_class)

    def check_integrity(self) -> None:
        """Raise ``AssertionError`` if an invariant is broken."""
        waiting_works = [work for work in self._works.values() if work not in self._running]
        waiting = [ticket for work in waiting_works for ticket in work.tickets]
        self._room.check_integrity((t.request.work_class, t.request.tenant, t.tokens) for t in waiting)
        assert self._waiting_tickets == len(waiting)
        assert all(ticket.state is TicketState.WAITING for ticket in waiting)
        assert all(ticket.state is TicketState.RUNNING for work in self._running for ticket in work.tickets)
        in_lanes = [work for lane in self._lanes.values() for work in lane]
        assert len(in_lanes) == len(waiting_works) and set(in_lanes) == set(waiting_works)
        for work_class, lane in self._lanes.items():
            lane.check_integrity(work_class)
            assert lane.is_empty == (work_class not in self._share_of(work_class))
        for key, work in self._works.items():
            assert work.key == key and all(ticket.work is work for ticket in work.tickets)
        for work in waiting_works:
            assert work.tickets
            assert work.work_class.urgency <= min(t.request.work_class.urgency for t in work.tickets)
        counts = self._counts
        alive = sum(len(work.tickets) for work in set(self._works.values()) | self._running)
        assert counts.admitted == alive + counts.done + counts.expired + counts.cancelled
