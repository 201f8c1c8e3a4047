"""What agents felt, told to the server in the background."""

import asyncio
import logging
from collections import deque
from typing import Final, TypeVar

from precall.client import convert
from precall.client.background import start_background
from precall.client.errors import PrecallError
from precall.client.hook_calls import HookCalls
from precall.client.methods import REPORT_READS
from precall.client.options import ClientOptions
from precall.client.tracing import PushApplied
from precall.client.transport import Transport
from precall.proto import anticipation_pb2

_log = logging.getLogger(__name__)

_BATCH: Final = 256
ReportT = TypeVar("ReportT")


class Reporter:
    """Batches reports; never on a read's path, bounded (the oldest fall out), dropped when a send fails.

    Hooks hear of pushes at once.
    """

    def __init__(self, transport: Transport, options: ClientOptions, hooks: HookCalls) -> None:
        self._hooks = hooks
        self._transport = transport
        self._options = options
        self._reads: deque[anticipation_pb2.ReadReport] = deque(maxlen=options.max_pending_reports)
        self._pushes: deque[anticipation_pb2.PushReport] = deque(maxlen=options.max_pending_reports)
        self._waiting = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_background(self._run(), name="precall-reports")

    async def close(self) -> None:
        """Send what is left, once, within the close deadline; cut short, it leaves nothing running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._send(self._options.close_deadline_seconds)

    def add_read(self, report: anticipation_pb2.ReadReport) -> None:
        self._reads.append(report)
        self._waiting.set()

    def add_push(self, report: anticipation_pb2.PushReport) -> None:
        self._pushes.append(report)
        self._waiting.set()
        lead = convert.seconds_from_wire(report.lead) if report.HasField("lead") else None
        self._hooks.tell(PushApplied(report.session_id, report.push_id, report.items, lead))

    async def _run(self) -> None:
        while True:
            await self._waiting.wait()
            await asyncio.sleep(self._options.report_interval_seconds)  # what comes meanwhile joins the batch
            await self._send(self._options.observe_deadline_seconds)

    async def _send(self, deadline_seconds: float) -> None:
        self._waiting.clear()
        while self._reads or self._pushes:
            reads, pushes = _take(self._reads), _take(self._pushes)
            request = anticipation_pb2.ReportReadsRequest(reads=reads, pushes=pushes)
            try:
                await self._transport.call(
                    REPORT_READS, request, deadline_seconds=deadline_seconds, retry=False
                )
            except PrecallError as error:
                _log.debug("reports of reads were dropped (%s)", error.reason)
                return


def _take(queue: deque[ReportT]) -> list[ReportT]:
    return [queue.popleft() for _ in range(min(len(queue), _BATCH))]
