"""Chooses the texts of one batch; where the device pads, those of like length."""

from collections.abc import Sequence

from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import Work


def pack(candidates: Sequence[Work], settings: BatchingSettings) -> list[Work]:
    """The first candidate and, within the settings' limits, those nearest to it in length; where the device
    does not pad, those that come next.

    ``candidates`` is not empty and in fair order: the first always goes (so nothing waits for ever for
    company of its own length), even if it is over ``max_batch_tokens`` alone.
    """
    if not settings.padded:
        return _next_in_line(candidates, settings)
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


def _next_in_line(candidates: Sequence[Work], settings: BatchingSettings) -> list[Work]:
    chosen = [candidates[0]]
    tokens = candidates[0].tokens
    for work in candidates[1 : settings.max_batch_items]:
        if tokens + work.tokens > settings.max_batch_tokens:
            break
        chosen.append(work)
        tokens += work.tokens
    return chosen
