"""Texts of any lengths as the rectangles that ONNX Runtime computes. Plain numpy."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

PASS_TOKENS: Final = 512
"""Padded tokens of one forward pass. Beyond it a processor only loses: activations outgrow its caches."""


def padded_feeds(texts: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """``input_ids`` and ``attention_mask`` of a non-empty list of token ids, each ``(texts, longest)``."""
    longest = max(len(ids) for ids in texts)
    padded = np.zeros((len(texts), longest), dtype=np.int64)
    mask = np.zeros_like(padded)
    for row, ids in enumerate(texts):
        padded[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    return {"input_ids": padded, "attention_mask": mask}


def padded_passes(lengths: Sequence[int]) -> list[list[int]]:
    """Rows by ascending length, so that little is padding, cut where the next one would take a pass over
    ``PASS_TOKENS``; one over it alone goes alone.
    """
    passes: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not passes or (len(passes[-1]) + 1) * lengths[row] > PASS_TOKENS:
            passes.append([])
        passes[-1].append(row)
    return passes
