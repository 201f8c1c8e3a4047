import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precall.bench.transcript import PartialTranscript, play, speak

WORDS = st.lists(st.text("abcdefg?", min_size=1, max_size=8), min_size=1, max_size=30)


def test_each_word_takes_two_fifths_of_a_second_at_150_words_a_minute():
    spoken = speak("When did  Caroline leave?")
    assert spoken.partials == (
        PartialTranscript(pytest.approx(0.4), "When"),
        PartialTranscript(pytest.approx(0.8), "When did"),
        PartialTranscript(pytest.approx(1.2), "When did Caroline"),
    )
    assert spoken.text == "When did Caroline leave?"
    assert spoken.duration_seconds == pytest.approx(1.6)


def test_a_longer_step_still_ends_one_word_before_the_end():
    spoken = speak("one two three four five six", words_per_partial=3)
    assert [partial.text for partial in spoken.partials] == ["one two three", "one two three four five"]


def test_a_question_of_one_word_has_no_partials():
    assert speak("Why?").partials == ()


@given(words=WORDS, step=st.integers(1, 40), pace=st.floats(30, 600))
def test_partials_grow_in_time_and_never_hold_the_last_word(words, step, pace):
    spoken = speak(" ".join(words), words_per_minute=pace, words_per_partial=step)
    offsets = [partial.offset_seconds for partial in spoken.partials]
    counts = [len(partial.text.split()) for partial in spoken.partials]
    assert offsets == sorted(set(offsets))
    assert all(0 < offset < spoken.duration_seconds for offset in offsets)
    assert counts == sorted(set(counts))
    assert all(spoken.text.startswith(partial.text) for partial in spoken.partials)
    assert counts[-1:] == ([len(words) - 1] if len(words) > 1 else [])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("  ", {}, "at least one word"),
        ("a b", {"words_per_minute": 0}, "words_per_minute must be above 0"),
        ("a b", {"words_per_partial": 0}, "words_per_partial must be 1 or more"),
    ],
)
def test_what_cannot_be_spoken_is_refused(text, options, message):
    with pytest.raises(ValueError, match=message):
        speak(text, **options)


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_play_keeps_the_moments_on_a_compressed_clock(run_on_virtual_clock, speed):
    async def scenario():
        clock = asyncio.get_running_loop().time
        heard = [(partial.text, clock() * speed) async for partial in play(speak("a b c"), speed=speed)]
        return heard, clock() * speed

    heard, ended = run_on_virtual_clock(scenario())
    assert heard == [("a", pytest.approx(0.4)), ("a b", pytest.approx(0.8))]
    assert ended == pytest.approx(1.2)


def test_a_slow_listener_does_not_shift_the_later_partials(run_on_virtual_clock):
    async def scenario():
        clock = asyncio.get_running_loop().time
        moments = []
        async for _ in play(speak("a b c d")):
            moments.append(clock())
            await asyncio.sleep(0.3)
        return moments

    assert run_on_virtual_clock(scenario()) == pytest.approx([0.4, 0.8, 1.2])


async def test_a_clock_that_stands_still_is_refused():
    with pytest.raises(ValueError, match="speed must be above 0"):
        await anext(play(speak("a b"), speed=0))
