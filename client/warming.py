"""Embedding what was just said before a read asks for it."""

import asyncio

from precall.client.encoder_supply import EncoderSupply


class Warming:
    """A finished turn is embedded at once; a partial one when it has stood for a pause.

    While words still stream in, each partial is replaced by the next before anybody could read it: embedding
    it would only keep the encoder from the reads of other sessions.
    """

    def __init__(self, encoders: EncoderSupply, *, pause_seconds: float) -> None:
        self._encoders = encoders
        self._pause_seconds = pause_seconds
        self._waiting: asyncio.TimerHandle | None = None

    def observed(self, text: str, *, partial: bool) -> None:
        """``text`` is what was said of the turn so far."""
        self.close()
        if not text.strip():
            return
        if partial:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_later(self._pause_seconds, self._warm, text)
        else:
            self._warm(text)

    def close(self) -> None:
        """Forget the partial that is waiting."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _warm(self, text: str) -> None:
        encoder = self._encoders.fitting
        if encoder is not None:
            encoder.warm(text)
