"""Is the model alive? A real forward pass by each worker says so."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from precall.engine.batching.failed_pass import failed_pass
from precall.engine.batching.health import DeviceHealth
from precall.engine.batching.outcome import EmbeddingOutcome
from precall.engine.batching.work import EmbeddingRequest, WorkClass
from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.guard import PROBE_TEXT
from precall.engine.errors import ModelUnavailable, PrecallError

_TENANT: Final = ""


class DeviceProbe:
    """Asks as a caller does, through the queue, and tells the health of each worker what came of it."""

    def __init__(
        self,
        encoder: Encoder,
        health: DeviceHealth,
        seconds: float,
        ask: Callable[[EmbeddingRequest], Awaitable[EmbeddingOutcome]],
    ) -> None:
        """``ask`` admits a request whatever waits already; ``seconds`` is how long its answer may take."""
        self._encoder = encoder
        self._health = health
        self._seconds = seconds
        self._ask = ask

    async def check(self, classes: Sequence[Sequence[WorkClass]]) -> None:
        """One pass by each worker, of which ``classes`` says what it computes.

        Raises ``ModelUnavailable`` or ``NumericsError`` if one failed.
        """
        faults = await asyncio.gather(*(self._fault(computed[0]) for computed in classes))
        for worker, fault in enumerate(faults):
            if fault is not None:
                self._health.failed(fault, worker)
        for fault in faults:
            if fault is not None:
                raise fault

    async def _fault(self, work_class: WorkClass) -> PrecallError | None:
        # Roles differ so that the probes of two workers are never taken for one text asked for twice.
        role = TextRole.QUERY if work_class is WorkClass.CONVERSATION else TextRole.DOCUMENT
        try:
            text = self._encoder.tokenize(PROBE_TEXT, role, truncate=True)
            async with asyncio.timeout(self._seconds):
                return (await self._ask(EmbeddingRequest(text, role, _TENANT, work_class))).error
        except TimeoutError:
            return ModelUnavailable(
                f"the device did not answer a probe within {self._seconds:g} s: "
                "restart the server if this goes on"
            )
        except Exception as error:  # whatever it was, the model cannot even read the probe
            return failed_pass(error, "a probe")
