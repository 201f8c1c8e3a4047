"""A written question as a speech recogniser would deliver it: partial transcripts, then the whole."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

WORDS_PER_MINUTE = 150.0


@dataclass(frozen=True, slots=True)
class PartialTranscript:
    """What had been recognised of the question ``offset_seconds`` after its first sound."""

    offset_seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class SpokenQuestion:
    """A question spoken at an even pace.

    ``partials`` are in the order of time, each a longer beginning of ``text``; none holds the last word, so
    nothing that is predicted from them has seen the whole question. ``duration_seconds`` is when the last
    word has been spoken and ``text`` is known. A question of one word has no partials.
    """

    text: str
    partials: tuple[PartialTranscript, ...]
    duration_seconds: float


def speak(
    text: str, *, words_per_minute: float = WORDS_PER_MINUTE, words_per_partial: int = 1
) -> SpokenQuestion:
    """Speak ``text``: a partial arrives after every ``words_per_partial`` words, when their last has ended.

    Raises ValueError for a text without words and for a pace or a step that is not positive.
    """
    if words_per_minute <= 0:
        raise ValueError(f"words_per_minute must be above 0, not {words_per_minute}")
    if words_per_partial < 1:
        raise ValueError(f"words_per_partial must be 1 or more, not {words_per_partial}")
    words = text.split()
    if not words:
        raise ValueError("a question needs at least one word")
    seconds_per_word = 60 / words_per_minute
    # The last partial comes one word before the end, whatever the step.
    counts = [*range(words_per_partial, len(words) - 1, words_per_partial), len(words) - 1]
    return SpokenQuestion(
        text=" ".join(words),
        partials=tuple(
            PartialTranscript(count * seconds_per_word, " ".join(words[:count])) for count in counts if count
        ),
        duration_seconds=len(words) * seconds_per_word,
    )


async def play(question: SpokenQuestion, *, speed: float = 1.0) -> AsyncIterator[PartialTranscript]:
    """Yield each partial at its moment, and return when the whole question has been spoken.

    ``speed`` compresses the clock: 10 plays a second of speech in 100 ms. Moments count from the first step
    of the iteration, so a slow consumer delays a partial but not the ones after it.
    """
    if speed <= 0:
        raise ValueError(f"speed must be above 0, not {speed}")
    loop = asyncio.get_running_loop()
    started = loop.time()
    for partial in question.partials:
        await _until(loop, started + partial.offset_seconds / speed)
        yield partial
    await _until(loop, started + question.duration_seconds / speed)


async def _until(loop: asyncio.AbstractEventLoop, moment: float) -> None:
    remaining = moment - loop.time()
    if remaining > 0:
        await asyncio.sleep(remaining)
