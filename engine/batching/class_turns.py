"""Whose turn it is at a few places, each of which does one thing at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic

from precall.engine.batching.fair_share import FairShare, Member
from precall.engine.batching.work import WorkClass
from precall.engine.errors import PrecallError


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and why."""

    tenant: str
    work_class: WorkClass


@dataclass(eq=False, slots=True)
class _Waiter:
    asker: Asker
    amount: float
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ClassTurns:
    """Places that go round: among work classes by weight, among the tenants of one alike, and to each
    tenant's waiters first come, first served. Whoever has much to do takes turn after turn, so that others
    come in between.

    For one event loop. Invariants: nobody waits while a place is free; exactly the classes and tenants with
    waiters have a line and a share.
    """

    def __init__(self, weights: Mapping[WorkClass, float], *, places: int = 1) -> None:
        """``weights``: 1 for a class that is not named. ``places``: how many turns last at a time."""
        self._classes = _KeptShare[WorkClass](weights)
        self._tenants = {work_class: _KeptShare[str]() for work_class in WorkClass}
        self._lines: dict[WorkClass, dict[str, dict[_Waiter, None]]] = {each: {} for each in WorkClass}
        self._places = places
        self._free = places
        self._refusal: Callable[[], PrecallError] | None = None

    @asynccontextmanager
    async def turn(self, asker: Asker, amount: float) -> AsyncIterator[None]:
        """A turn, for as long as the context lasts. ``amount``: of work, in any unit, that it is charged.

        Raises what ``refuse`` was given. Cancelling the caller takes it out of its line.
        """
        await self._take(_Waiter(asker, amount))
        try:
            yield
        finally:
            self._give_back()

    def refuse(self, refusal: Callable[[], PrecallError]) -> None:
        """Raise ``refusal()`` to all who wait, and to whoever comes from now on."""
        self._refusal = refusal
        waiters = [w for lines in self._lines.values() for line in lines.values() for w in line]
        for waiter in waiters:
            self._leave(waiter)
            if not waiter.turn.done():
                waiter.turn.set_exception(refusal())

    async def _take(self, waiter: _Waiter) -> None:
        if self._refusal is not None:
            raise self._refusal()
        self._enter(waiter)
        self._call_next()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.cancelled():
                self._leave(waiter)
            elif waiter.turn.exception() is None:  # it was called in the same moment
                self._give_back()
            raise

    def _give_back(self) -> None:
        self._free += 1
        self._call_next()

    def _call_next(self) -> None:
        while self._free and (waiter := self._next()) is not None:
            if not waiter.turn.cancelled():  # else its caller has gone and not said so yet
                self._classes.serve(waiter.asker.work_class, waiter.amount)
                self._tenants[waiter.asker.work_class].serve(waiter.asker.tenant, waiter.amount)
                self._free -= 1
                waiter.turn.set_result(None)
            self._leave(waiter)
        if self._free == self._places:
            self._classes.forget()
            for share in self._tenants.values():
                share.forget()

    def _next(self) -> _Waiter | None:
        waiting = [work_class for work_class, lines in self._lines.items() if lines]
        if not waiting:
            return None
        work_class = min(waiting, key=self._classes.clock)  # on a tie the first: the most urgent
        lines = self._lines[work_class]
        tenant = min(lines, key=self._tenants[work_class].clock)
        return next(iter(lines[tenant]))

    def _enter(self, waiter: _Waiter) -> None:
        work_class, tenant = waiter.asker.work_class, waiter.asker.tenant
        self._classes.join(work_class)
        self._tenants[work_class].join(tenant)
        self._lines[work_class].setdefault(tenant, {})[waiter] = None

    def _leave(self, waiter: _Waiter) -> None:
        """Twice is as once."""
        work_class, tenant = waiter.asker.work_class, waiter.asker.tenant
        lines = self._lines[work_class]
        if waiter not in lines.get(tenant, {}):
            return
        del lines[tenant][waiter]
        if not lines[tenant]:
            del lines[tenant]
            self._tenants[work_class].leave(tenant)
        if not lines:
            self._classes.leave(work_class)

    def check_integrity(self) -> None:
        """Raise ``AssertionError`` if an invariant is broken."""
        assert 0 <= self._free <= self._places
        for work_class, lines in self._lines.items():
            assert bool(lines) == (work_class in self._classes)
            assert all(lines.values()) and all(tenant in self._tenants[work_class] for tenant in lines)
            assert not (self._free and lines)


class _KeptShare(Generic[Member]):
    """A `FairShare` whose members come and go between two turns of theirs, and keep what they have used."""

    def __init__(self, weights: Mapping[Member, float] | None = None) -> None:
        self._share = FairShare[Member](weights)
        self._kept: dict[Member, float] = {}

    def __contains__(self, member: Member) -> bool:
        return member in self._share

    def clock(self, member: Member) -> float:
        return self._share.clock(member)

    def join(self, member: Member) -> None:
        """Twice is as once."""
        if member not in self._share:
            self._share.join(member, self._kept.pop(member, 0.0))

    def leave(self, member: Member) -> None:
        self._kept[member] = self._share.clock(member)
        self._share.leave(member)

    def serve(self, member: Member, amount: float) -> None:
        self._share.serve(member, amount)

    def forget(self) -> None:
        """When nobody has anything to do, nobody has used more than another."""
        self._kept.clear()
