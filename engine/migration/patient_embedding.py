"""Embedding for work that has time: it gives way to everybody, and outlasts a model's bad hours."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import ModelUnavailable, Overloaded
from precall.engine.migration.stop_signal import StopSignal, growing_pauses
from precall.engine.tenant_model import TenantModel

AnswerT = TypeVar("AnswerT")


class PatientEmbedding:
    """Of one tenant. Only the event loop may call in."""

    def __init__(self, tenant_id: str, stop: StopSignal, paused: Callable[[str], None]) -> None:
        """``stop`` ends every wait. ``paused`` is told why a model fails, and ``""`` once it works again."""
        self._tenant_id = tenant_id
        self._stop = stop
        self._paused = paused

    async def embed(
        self, model: TenantModel, texts: Sequence[str], role: TextRole
    ) -> Sequence[EmbeddingOutcome]:
        """An outcome a text; long ones are cut. It returns once at least one text says something of itself.

        A refusal is waited out for as long as it says, a failing model for longer each time. Raises Draining
        when it is to stop, and what else `Batcher.embed` raises.
        """
        pauses = growing_pauses()
        while True:
            try:
                outcomes = await self._unless_stopped(
                    model.batcher.embed(
                        texts, role, tenant=self._tenant_id, work_class=WorkClass.INGEST, truncate=True
                    )
                )
                faults = [each.error for each in outcomes if isinstance(each.error, ModelUnavailable)]
                if len(faults) < len(outcomes):
                    self._paused("")
                    return outcomes
                why, seconds = f"{faults[0].reason}: {faults[0].message}", next(pauses)
            except Overloaded as refusal:
                why, seconds = "", refusal.retry_after_seconds
            except ModelUnavailable as fault:
                why, seconds = f"{fault.reason}: {fault.message}", next(pauses)
            if why:
                self._paused(why)
            await self._stop.pause(seconds)

    async def _unless_stopped(self, asked: Awaitable[AnswerT]) -> AnswerT:
        answer, stopped = asyncio.ensure_future(asked), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({answer, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._stop.require_going()
            return answer.result()
        finally:
            answer.cancel()
            stopped.cancel()
            await asyncio.gather(answer, stopped, return_exceptions=True)
