"""Which waiting tickets came too late."""

import heapq
import itertools

from precall.engine.batching.work import Ticket, TicketState


class Deadlines:
    """Tickets by their deadline, on whatever clock ``passed`` is asked with."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ticket]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, ticket: Ticket, waiting: int) -> None:
        """``waiting`` is how many tickets wait in all."""
        heapq.heappush(self._heap, (deadline, next(self._numbers), ticket))
        # Tickets that were answered in time stay in the heap until their deadline: do not let them pile up.
        if len(self._heap) > 2 * waiting + 64:
            self._heap = [entry for entry in self._heap if entry[2].state is TicketState.WAITING]
            heapq.heapify(self._heap)

    def passed(self, now: float) -> list[Ticket]:
        """Remove and return the waiting tickets whose deadline is ``now`` or before."""
        late: list[Ticket] = []
        while self._heap and self._heap[0][0] <= now:
            ticket = heapq.heappop(self._heap)[2]
            if ticket.state is TicketState.WAITING:
                late.append(ticket)
        return late
