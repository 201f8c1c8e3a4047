"""The measurement of predictors: what it counts, on a dialogue small enough to reckon by hand."""

import numpy as np
from numpy.typing import NDArray

from precall.bench.coverage_corpus import RUNG, Exchange, Utterance
from precall.bench.predictor_trial import StandingClock, TextTable, Trial, Worth
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.memory import Source
from tests.fakes.memories import NOW, indexed
from tests.fakes.world import CARD, DIMENSION, embed_words

TURNS = [f"{word} {word}" for word in ("pune", "train", "tea", "doctor", "garden", "piano", "rent", "visa")]


class EveryText(dict[str, NDArray[np.float32]]):
    """Vectors of whatever is asked."""

    def __missing__(self, text: str) -> NDArray[np.float32]:
        return embed_words(text)


def partition() -> Partition:
    made = Partition(RUNG, DIMENSION, PartitionSettings())
    made.apply(
        added=[
            indexed(
                f"m{n}", RUNG, vector=embed_words(text), text=text, event=NOW + 60 * n, source=Source("call")
            )
            for n, text in enumerate(TURNS)
        ]
    )
    return made


def trial(*predictors: str, items: int = 8) -> Trial:
    model = TextTable(CARD, EveryText())
    return Trial(partition(), model, items=items, predictors=predictors, clock=StandingClock(NOW + 10**6))


def typed(*texts: str) -> Exchange:
    return Exchange(tuple(Utterance(text, group="g") for text in texts), fitted=False, typed=True)


async def test_a_read_counts_before_anything_is_predicted_from_it() -> None:
    made = trial("recent_turns")
    await made.play(typed(TURNS[0], TURNS[1]), "one")
    worth = made.worth
    assert (worth.reads, worth.held_top, worth.covered) == (2, 1, 1), "at the first nothing was said yet"
    assert worth.needed == {"recent_turns": 1}
    assert worth.pushed_items == {"recent_turns": 8}
    assert worth.used["recent_turns"] + worth.wasted["recent_turns"] == 8


async def test_what_is_held_without_a_coverage_is_told_apart() -> None:
    made = trial("call_start")
    await made.play(typed(*TURNS[:3]), "one")
    assert (made.worth.held_top, made.worth.covered) == (3, 0)
    assert made.worth.needed == {"call_start": 3}


async def test_what_others_asked_teaches_and_does_not_count() -> None:
    made = trial("co_use")
    await made.play(typed(*TURNS[:4]), "earlier")
    made.forget_counts()
    assert made.worth == Worth()
    await made.play(typed(*TURNS[:4]), "one")
    assert made.worth.reads == 4 and made.worth.pushed_items["co_use"] > 0
    assert made.worth.needed.keys() == {"co_use"}
