"""What waits in one work class: a first-come line a tenant, served in fair turns."""

import heapq
from collections.abc import Iterator

from precall.engine.batching.fair_share import FairShare
from precall.engine.batching.packing import pack
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Work, WorkClass


class Lane:
    """Invariant: exactly the tenants with work waiting have a line and a share."""

    def __init__(self, settings: BatchingSettings) -> None:
        self._settings = settings
        self._lines: dict[str, dict[Work, None]] = {}
        self._share = FairShare[str]()

    @property
    def is_empty(self) -> bool:
        return not self._lines

    def __iter__(self) -> Iterator[Work]:
        for line in self._lines.values():
            yield from line

    def add(self, work: Work) -> None:
        if work.tenant not in self._lines:
            self._lines[work.tenant] = {}
            self._share.join(work.tenant)
        self._lines[work.tenant][work] = None

    def remove(self, work: Work) -> None:
        line = self._lines[work.tenant]
        del line[work]
        if not line:
            del self._lines[work.tenant]
            self._share.leave(work.tenant)

    def take(self) -> list[Work]:
        """Remove and return the works of the next batch; the lane must not be empty."""
        works = pack(self._in_fair_order(self._settings.look_ahead), self._settings)
        for work in works:
            self._share.serve(work.tenant, work.tokens)
            self.remove(work)
        return works

    def check_integrity(self, work_class: WorkClass) -> None:
        assert len(self._share) == len(self._lines)
        for tenant, line in self._lines.items():
            assert line and tenant in self._share
            assert all(work.tenant == tenant and work.work_class is work_class for work in line)

    def _in_fair_order(self, count: int) -> list[Work]:
        """Up to ``count`` works in the order in which they would be served one by one."""
        # A tenant's place in the heap is unique, so neither iterators nor works are ever compared.
        turns = [
            (self._share.clock(tenant), place, tenant, iter(line))
            for place, (tenant, line) in enumerate(self._lines.items())
        ]
        heapq.heapify(turns)
        order: list[Work] = []
        while turns and len(order) < count:
            clock, place, tenant, line = turns[0]
            work = next(line, None)
            if work is None:
                heapq.heappop(turns)
                continue
            order.append(work)
            heapq.heapreplace(
                turns, (self._share.clock_after(tenant, clock, work.tokens), place, tenant, line)
            )
        return order
