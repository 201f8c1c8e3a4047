"""Vectors of what is said, made here so that the server need not make them again."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.client.clock import Clock
from precall.client.encoder import QueryEncoder
from precall.client.encoder_supply import EncoderSupply

_log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 0.05
"""An observation waits no longer for its vector: by then the server might have made it."""


@dataclass(frozen=True, slots=True)
class SpokenVector:
    """``vector``: float32 unit vector, shape ``(dimension,)``, of the model of that fingerprint."""

    vector: NDArray[np.float32]
    model_fingerprint: str


class SpokenVectors:
    """Of all sessions of one client, which share its encoder.

    What will be read next is embedded here in any case, and its vector goes along with the observation.
    Anything else (partial transcripts, what the agent says) is embedded here while nothing else of the kind
    is and the encoder has rested for as long as it last worked: so a read waits for one other text at most,
    and this takes half of a processor at most, however many conversations there are. What finds no place is
    left to the server.
    """

    def __init__(self, encoders: EncoderSupply, clock: Clock) -> None:
        self._encoders = encoders
        self._clock = clock
        self._busy = False
        self._rested_at = float("-inf")
        self._approximate: QueryEncoder | None = None

    async def of(self, text: str, *, read_next: bool) -> SpokenVector | None:
        """The text's vector by the server's own model, or None: then the server makes it. Never raises.

        ``read_next``: a read of the very same words is expected.
        """
        encoder = self._encoders.fitting
        if encoder is None or encoder is self._approximate:
            return None
        if read_next:
            return await self._made(encoder, text)
        began = self._clock.elapsed()
        if self._busy or began < self._rested_at:
            return None
        self._busy = True
        try:
            return await self._made(encoder, text)
        finally:
            self._busy = False
            now = self._clock.elapsed()
            self._rested_at = now + (now - began)

    async def _made(self, encoder: QueryEncoder, text: str) -> SpokenVector | None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                made = await encoder.encode(text)
        except TimeoutError:
            return None
        except Exception:
            _log.debug("the local encoder failed; the server embeds what was said", exc_info=True)
            return None
        if made.approximation is not None:  # a light encoder's: of use here, never for the server
            self._approximate = encoder
            return None
        # What was cut here the server may cut elsewhere.
        return None if made.truncated else SpokenVector(made.vector, encoder.model_fingerprint)
