"""Tells hooks when the connection comes and goes."""

import asyncio

from precall.client.background import start_background
from precall.client.hook_calls import HookCalls
from precall.client.tracing import StreamDown, StreamUp
from precall.client.watcher import Watcher


class StreamEvents:
    """Follows the client's one stream for as long as the client is open."""

    def __init__(self, watcher: Watcher, hooks: HookCalls) -> None:
        self._watcher = watcher
        self._hooks = hooks
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._hooks:
            self._task = start_background(self._run(), name="precall-stream-events")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            stream = await self._watcher.opened()
            self._hooks.tell(StreamUp(stream.stream_id, stream.model_fingerprint))
            try:
                await stream.closed()
            finally:
                self._hooks.tell(StreamDown(stream.stream_id))
