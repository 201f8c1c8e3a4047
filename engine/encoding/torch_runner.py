"""Takes token ids to a model on its device and brings the rows back."""

import threading
import traceback
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from precall.engine.encoding.packing_texts import PackedTexts, cut_passes
from precall.engine.encoding.torch_attention import PackedTensors
from precall.engine.encoding.torch_device import Placement
from precall.engine.errors import InvalidInput, ModelUnavailable

Replay = Callable[[PackedTexts], Tensor | None]
"""Rows of a pass that was recorded, or None if none of that size was."""


class PackedRunner:
    """Thread-safe: one pass at a time. ``forward`` gives a row, float32, for each text of a batch."""

    def __init__(
        self,
        forward: Callable[[PackedTensors], Tensor],
        placement: Placement,
        *,
        pass_tokens: int | None = None,
        replay: Replay | None = None,
    ) -> None:
        """``replay``, where it gives rows, takes the place of ``forward``.

        By default a GPU records its small passes now, which takes some seconds, where they can be; a
        processor none. Raises ``ModelUnavailable`` if the device fails at that.
        """
        placement.prepare()
        self._forward = forward
        self._placement = placement
        self._pass_tokens = pass_tokens if pass_tokens is not None else placement.default_pass_tokens
        self._one_at_a_time = threading.Lock()
        self._replay = replay
        if placement.has_variable_length_attention and replay is None:
            self._replay = self._record()

    def run(self, texts: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        """Rows in the order of ``texts``, float32, shape ``(n, width)``; cut into passes, joined again.

        Raises ``InvalidInput`` for an empty batch, ``ModelUnavailable`` when the device fails or has too
        little memory; after that the next batch may well work.
        """
        if not texts:
            raise InvalidInput("a batch needs at least one text")
        rows = []
        for part in cut_passes([len(text) for text in texts], self._pass_tokens):
            packed = PackedTexts.of([texts[row] for row in part])
            try:
                with self._one_at_a_time, torch.inference_mode():
                    rows.append(self._pass(packed))
            except torch.OutOfMemoryError as error:
                self._let_go(error)
                raise ModelUnavailable(
                    f"the device has too little memory for a pass of {packed.tokens} tokens: "
                    "lower pass_tokens or max_tokens, or send the batch again"
                ) from error
            except (RuntimeError, IndexError) as error:
                self._let_go(error)
                raise ModelUnavailable(
                    f"the model failed on a batch of {len(packed.lengths)} texts with {packed.tokens} tokens "
                    f"({type(error).__name__}); send it again, in smaller batches if this goes on"
                ) from error
        return np.concatenate(rows)

    def _pass(self, packed: PackedTexts) -> NDArray[np.float32]:
        rows = self._replay(packed) if self._replay is not None else None
        if rows is None:
            buffer = torch.from_numpy(packed.buffer)
            if self._placement.on_gpu:
                buffer = buffer.pin_memory().to(self._placement.device, non_blocking=True)
            rows = self._forward(PackedTensors.of(buffer, packed))
        return np.asarray(rows.cpu().numpy(), dtype=np.float32)

    def _let_go(self, error: Exception) -> None:
        """Free what the failed pass had on the device. Whoever keeps the error keeps its traceback, whose
        frames hold every tensor of that pass: the next one would run out of memory as well.
        """
        traceback.clear_frames(error.__traceback__)
        if self._placement.on_gpu:
            torch.cuda.empty_cache()

    def _record(self) -> Replay:
        from precall.engine.encoding.torch_graphs import GraphedForward

        try:
            with torch.inference_mode():
                return GraphedForward(self._forward, self._placement.device).run
        except RuntimeError as error:
            raise ModelUnavailable(
                f"{self._placement.device} failed while its passes were recorded "
                f"({type(error).__name__}): {error}"
            ) from error
