"""CUDA graphs of small passes: one launch instead of some five hundred.

A lone query is too small to keep a GPU busy: launching the kernels takes longer than running them. Recorded
once for each size of ``PackingBuckets``, a pass is replayed as one. This file needs a GPU and has run on none
yet. What it builds on is tested on the processor: the choice of a size, the padding, and that padding changes
no row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from precall.engine.encoding.packing_buckets import PackingBuckets
from precall.engine.encoding.packing_texts import PackedTexts
from precall.engine.encoding.torch_attention import PackedTensors

_WARM_UPS = 2
"""Passes before a recording: libraries allocate their workspaces in the first ones."""


@dataclass(frozen=True, slots=True)
class _Recording:
    """``staging`` (pinned) is copied into ``buffer``, which the graph reads to fill ``output``."""

    graph: torch.cuda.CUDAGraph
    staging: Tensor
    buffer: Tensor
    output: Tensor


class GraphedForward:
    """Replays ``forward`` for small batches. One thread at a time."""

    def __init__(
        self,
        forward: Callable[[PackedTensors], Tensor],
        device: torch.device,
        buckets: PackingBuckets | None = None,
    ) -> None:
        """Record every size, the largest first, so that the smaller ones live in its memory."""
        self._forward = forward
        self._device = device
        self._buckets = buckets if buckets is not None else PackingBuckets()
        self._pool: Any = None
        # One for all: a pool is shared by recordings of one stream, and a library keeps a workspace a stream.
        self._aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.device(device):
            self._recordings = {tokens: self._record(tokens) for tokens in reversed(self._buckets.tokens)}

    def run(self, packed: PackedTexts) -> Tensor | None:
        """Rows of ``packed``, on the device, valid until the next call; None if too large a batch.

        The caller has read the rows of the call before: the pinned staging is written again without a look
        at whether its copy is over. Needs ``torch.inference_mode``.
        """
        tokens = self._buckets.choose(packed.tokens, len(packed.lengths))
        if tokens is None:
            return None
        recording = self._recordings[tokens]
        padded = packed.padded_to(tokens, self._texts)
        recording.staging.copy_(torch.from_numpy(padded.buffer))
        recording.buffer.copy_(recording.staging, non_blocking=True)
        recording.graph.replay()
        return recording.output[: len(packed.lengths)]

    @property
    def _texts(self) -> int:
        """Room for the batch's texts and for the one that stands for the padding."""
        return self._buckets.texts + 1

    def _record(self, tokens: int) -> _Recording:
        sample = PackedTexts.of([np.zeros(tokens, dtype=np.int64)]).padded_to(tokens, self._texts)
        staging = torch.from_numpy(sample.buffer).pin_memory()
        buffer = staging.to(self._device)
        # Any text of a later batch may be as long as the pass: that is what attention has to look at.
        batch = PackedTensors.of(buffer, sample, longest=tokens)
        self._aside.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._aside):
            for _ in range(_WARM_UPS):
                self._forward(batch)
        torch.cuda.current_stream(self._device).wait_stream(self._aside)
        graph = torch.cuda.CUDAGraph()
        # What other threads do on the device meanwhile, such as loading the reranker, is no part of it.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._aside, capture_error_mode="thread_local"):
            output = self._forward(batch)
        self._pool = graph.pool()
        return _Recording(graph, staging, buffer, output)
