"""Writes of one tenant that wait for their turn; those that wait together are committed together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from precall.engine.memory.group import AskedWrite

GROUP_MEMORIES: Final = 256
"""Where a group is closed, so that what waits behind it, a delete say, waits for tens of milliseconds."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[ResultT]):
    asked: AskedWrite
    result: asyncio.Future[ResultT]


class WriteQueue(Generic[ResultT]):
    """In the order of `put`, and without a timer: when its turn comes, a group is what waits at that moment.

    So a lone write waits for nobody, and the slower the disk, the more writes share one wait for it. Only the
    event loop may call in.
    """

    def __init__(
        self,
        turn: asyncio.Lock,
        commit: Callable[[Sequence[AskedWrite]], Awaitable[Sequence[ResultT | Exception]]],
    ) -> None:
        """``turn`` is held while ``commit`` runs; it answers for each write of a group, in order."""
        self._turn = turn
        self._commit = commit
        self._waiting: deque[_Waiting[ResultT]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def put(self, asked: AskedWrite) -> ResultT:
        """Wait until it is committed. It takes place even if the caller goes away meanwhile.

        Raises what ``commit`` answers for it.
        """
        waiting: _Waiting[ResultT] = _Waiting(asked, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await waiting.result

    async def _run(self) -> None:
        group: Sequence[_Waiting[ResultT]] = ()
        try:
            while self._waiting:
                async with self._turn:
                    group = self._next_group()
                    _settle(group, await self._committed(group))
                group = ()
        finally:
            self._running = None
            for abandoned in (*group, *self._waiting):  # only when the loop itself is being closed
                abandoned.result.cancel()

    def _next_group(self) -> Sequence[_Waiting[ResultT]]:
        group = [self._waiting.popleft()]
        memories = len(group[0].asked.batch)
        while self._waiting and memories + len(self._waiting[0].asked.batch) <= GROUP_MEMORIES:
            group.append(self._waiting.popleft())
            memories += len(group[-1].asked.batch)
        return group

    async def _committed(self, group: Sequence[_Waiting[ResultT]]) -> Sequence[ResultT | Exception]:
        try:
            return await self._commit([waiting.asked for waiting in group])
        except Exception as error:  # a fault of ours: it is each caller's, and the queue goes on
            return [error] * len(group)


def _settle(group: Sequence[_Waiting[ResultT]], results: Sequence[ResultT | Exception]) -> None:
    for waiting, result in zip(group, results, strict=True):
        if waiting.result.done():  # its caller is gone
            continue
        if isinstance(result, Exception):
            waiting.result.set_exception(result)
        else:
            waiting.result.set_result(result)
