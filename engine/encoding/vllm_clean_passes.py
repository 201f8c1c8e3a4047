"""Keeps a NaN to the text that it comes from.

vLLM computes keys and values in blocks of memory that it hands from text to text without clearing them, and
some of its attention kernels multiply what lies beyond a text's end by zero instead of leaving it out. Zero
times NaN is NaN: after one text with a NaN, sound ones that get its blocks come out as NaN, too (seen with
vLLM 0.32 on a processor, within the same batch). So whatever comes out as NaN is asked again from a clean
cache, in groups so small that no block is used twice. What is NaN then is so by itself.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.vllm_process import Answer, VllmProcess

Prompts = Sequence[NDArray[np.int64]]
Ask = Callable[[Prompts], list[Answer]]


def pool_cleanly(process: VllmProcess, prompts: Prompts, ask: Ask, *, seconds: float) -> list[Answer]:
    """``ask(prompts)``, in which only answers that are NaN by themselves are NaN; leaves no NaN behind.

    Nothing else may run on ``process`` meanwhile. If it dies on the way, its ``is_dead`` says so and the
    answers mean nothing. ``seconds`` is what clearing the cache may take.
    """
    answers = ask(prompts)
    suspects = [row for row, answer in enumerate(answers) if _is_nan(answer)]
    if not suspects:
        return answers
    for group in _groups(suspects, [process.blocks_of(prompt) for prompt in prompts], process.cache_blocks):
        process.clear_cache(seconds=seconds)
        for row, answer in zip(group, ask([prompts[row] for row in group]), strict=True):
            answers[row] = answer
    process.clear_cache(seconds=seconds)
    return answers


def _groups(rows: Sequence[int], blocks: Sequence[int], capacity: int) -> Iterator[list[int]]:
    """Cut where the next row would take more blocks than there are."""
    group: list[int] = []
    used = 0
    for row in rows:
        if group and used + blocks[row] > capacity:
            yield group
            group, used = [], 0
        group.append(row)
        used += blocks[row]
    yield group


def _is_nan(answer: Answer) -> bool:
    return not isinstance(answer, Exception) and not np.isfinite(answer).all()
