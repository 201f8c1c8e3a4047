"""A sound encoder on a device that keeps breaking down."""

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.encoder import EncodedBatch, Encoder, TokenizedText
from precall.engine.errors import ModelUnavailable

_CRASHES: Final[tuple[Callable[[], Exception], ...]] = (
    lambda: RuntimeError("device lost"),
    lambda: MemoryError("no memory for the pass"),
    lambda: ModelUnavailable("the engine's process died: it is being started again"),
)


class CrashingEncoder:
    """Every ``every``-th text breaks the pass that it is in, in one of three ways in turn: an error of the
    device, no memory, the model's own word. For one caller of ``encode`` at a time, as a batcher is.
    """

    def __init__(self, encoder: Encoder, every: int) -> None:
        self._encoder = encoder
        self._every = every
        self._kinds = itertools.cycle(_CRASHES)
        self._texts = 0
        self.crashes = 0
        self.tokenize = encoder.tokenize

    @property
    def card(self) -> ModelCard:
        return self._encoder.card

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        before = self._texts
        self._texts += len(texts)
        if before // self._every != self._texts // self._every:
            self.crashes += 1
            raise next(self._kinds)()
        return self._encoder.encode(texts)

    def close(self) -> None:
        self._encoder.close()
