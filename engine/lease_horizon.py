"""The leases of earlier processes, and what a later one must know of this one's."""

import asyncio
from contextlib import suppress

from precall.engine.clock import Clock
from precall.engine.errors import StorageUnavailable
from precall.engine.memory.store import TenantStore


class LeaseHorizon:
    """Until when clients may serve what they hold, as the tenant's file has it. In Unix seconds.

    Only the event loop may call in; the disk is written in threads.
    """

    def __init__(self, store: TenantStore, clock: Clock) -> None:
        """Reads from the store."""
        self._store = store
        self._clock = clock
        self._earlier = store.lease_horizon
        """Of clients of an earlier process."""
        self._announced = self._earlier
        self._announcing = asyncio.Lock()

    async def note(self, seconds: float) -> None:
        """Make durable, before a lease of so many seconds is granted, that a later process must reckon with
        it.
        """
        until = self._clock.wall() + seconds
        if until > self._announced:
            async with self._announcing:
                if until > self._announced:
                    horizon = until + seconds / 2  # so that one write serves several renewals
                    await asyncio.to_thread(self._write, horizon)
                    self._announced = horizon

    async def settle(self, lease_seconds: float) -> None:
        """The process ends: leave in the file how much longer some client may serve what it holds."""
        horizon = self._clock.wall() + lease_seconds if lease_seconds > 0 else 0.0
        if self._announced not in (horizon, self._earlier):  # else the file says so already
            # A full disk keeps the horizon that was announced, which is later: safe, and no reason to
            # leave the files open, or undeleted.
            with suppress(StorageUnavailable):
                await asyncio.to_thread(self._write, max(horizon, self._earlier))

    async def passed(self) -> None:
        """Return when no client of an earlier process may serve anything any more."""
        await asyncio.sleep(max(0.0, self._earlier - self._clock.wall()))

    def _write(self, moment: float) -> None:
        self._store.lease_horizon = moment
