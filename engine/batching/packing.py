"""Chooses texts of like length for one batch, so that the device computes little padding."""

from collections.abc import Sequence

from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Work


def pack(candidates: Sequence[Work], settings: BatchingSettings) -> list[Work]:
    """The first candidate and those nearest to it in length, within the settings' limits.

    ``candidates`` is not empty and in fair order: the first always goes (so nothing waits for ever for
    company of its own length), even if it is over ``max_batch_tokens`` alone.
    """
    first = candidates[0]
    chosen = [first]
    longest = real = first.tokens
    for work in sorted(candidates[1:], key=lambda candidate: abs(candidate.tokens - first.tokens)):
        if len(chosen) == settings.max_batch_items:
            break
        padded = (len(chosen) + 1) * max(longest, work.tokens)
        if padded <= settings.max_batch_tokens and real + work.tokens >= settings.minimum_fill * padded:
            chosen.append(work)
            longest = max(longest, work.tokens)
            real += work.tokens
    return chosen
