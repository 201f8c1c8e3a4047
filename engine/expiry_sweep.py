"""One timer for all tenants that destroys what has expired."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

_SIDE_BY_SIDE: Final = 4
"""Tenants that are swept at a time: a destruction may wait for a lease, and must not hold the others up."""

_logger = logging.getLogger(__name__)


class Expiring(Protocol):
    """What the sweep needs of a tenant."""

    @property
    def id(self) -> str: ...

    @property
    def expiry_is_due(self) -> bool:
        """Answered from memory."""
        ...

    async def destroy_expired(self) -> None: ...


class ExpirySweep:
    """Looks every ``seconds`` which of the open tenants hold what has expired; that asks no disk.

    A tenant that is opened later is found by the next look. Made and used on one event loop.
    """

    def __init__(self, tenants: Callable[[], Sequence[Expiring]], seconds: float) -> None:
        self._tenants = tenants
        self._seconds = seconds
        self._free = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """A destruction that was begun goes on in its tenant, which finishes it before its file is closed."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def sweep(self) -> None:
        """Destroy everything that is due now; a tenant that cannot is told of in the log."""
        await asyncio.gather(*(self._sweep_tenant(each) for each in self._tenants() if each.expiry_is_due))

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await asyncio.Event().wait()  # until it is time, or this is closed
            await self.sweep()

    async def _sweep_tenant(self, tenant: Expiring) -> None:
        async with self._free:
            try:
                await tenant.destroy_expired()
            except Exception:  # of one tenant, and of one look: the next one tries again
                _logger.exception("tenant %s keeps what has expired", tenant.id)
