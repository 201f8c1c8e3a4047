"""What an item of a push costs the processors of both ends, stage by stage.

python -P -m precall.bench.push_cost [--new 80] [--csv bench/results.csv]

One session goes on over a rung of made-up memories: each proposal names 200 of them, ``--new`` of which are
not held yet, and about as many go. The peer of either end is what protobuf takes for the very same messages:
no server and no client in Python does with less.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from precall.bench.index_memories import NOW, Corpus, memories, words
from precall.bench.pushed_cache import LADDER, AskedRung, session_on
from precall.bench.results import Measurement, append_results
from precall.client.cache import SessionCache
from precall.client.pushed import AppliedPush
from precall.engine.anticipation.events import Push, StreamEvent
from precall.engine.anticipation.predictor import AnsweredQuery, Proposal
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Rung
from precall.proto import anticipation_pb2
from precall.scoring.keyword import document_impacts
from precall.server.mapping.events import EventMapper

T = TypeVar("T")
R = TypeVar("R")

_CARD: Final = ModelCard("made up", "1", "0" * 64, dimension=384, max_tokens=256, pooling=Pooling.MEAN)
_RUNG: Final = Rung(("acme",))
_SETTINGS: Final = AnticipationSettings()
_MEMORIES: Final = 4_000
_TERMS: Final = 28
"""Of a turn of LoCoMo together with what was said before it, about."""
_HELD: Final = 256
_ANSWER: Final = 200
_PUSHES: Final = 150
_WARM: Final = 60
"""Pushes before the counting begins: then each memory has been pushed before, as in a shared rung it has."""


class StageTimes:
    """Microseconds an item by stage, push by push."""

    def __init__(self) -> None:
        self._spent: dict[str, list[float]] = defaultdict(list)

    def measure(self, stage: str, items: int, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        """What ``work`` makes of each part of a push of so many items."""
        began = time.perf_counter()
        results = [work(part) for part in parts]
        self._spent[stage].append((time.perf_counter() - began) * 1e6 / items)
        return results

    def medians(self, last: int) -> Mapping[str, float]:
        """Of the last so many pushes."""
        return {stage: float(np.median(spent[-last:])) for stage, spent in self._spent.items()}


def asked_rung() -> AskedRung:
    corpus = Corpus(_CARD.dimension)
    rows = corpus.vectors(_MEMORIES)
    generator = np.random.default_rng(5)
    partition = Partition(_RUNG, _CARD.dimension, PartitionSettings())
    made = []
    for indexed in memories(rows):
        said = words(generator, _TERMS)
        memory = replace(indexed.memory, rung=_RUNG, text=" ".join(said[:16]))
        made.append(replace(indexed, memory=memory, impacts=document_impacts(said)))
    partition.apply(added=made)
    return AskedRung(partition, _CARD, {}, NOW, rows)


def measure(new: int) -> Mapping[str, float]:
    """Microseconds an item, by stage; a stage that stands for several is their sum."""
    rung = asked_rung()
    session, times = session_on(rung, _HELD), StageTimes()
    mapper = EventMapper(LADDER, _CARD.fingerprint, _CARD.dimension)
    cache = SessionCache(LADDER.scope(_RUNG), max_items=_HELD, max_bytes=1 << 40)
    cache.adopt(fingerprint=_CARD.fingerprint, maximum_age=float("inf"))
    for part in session.open_push(readings=(), part_items=_SETTINGS.push_part_items):
        cache.apply(mapper.message(StreamEvent(1, part)).push, elapsed=0.0)

    def choose(proposal: Proposal) -> Sequence[Push]:
        return session.answer_push(
            proposal, caused_at=0.0, caused_by_sequence=0, part_items=_SETTINGS.push_part_items
        )

    def take(message: anticipation_pb2.WatchEvent) -> AppliedPush:
        return cache.apply(message.push, elapsed=0.0)

    for number in range(_PUSHES):
        ids = [f"m{(number * new + place) % _MEMORIES}" for place in range(_ANSWER)]
        query = AnsweredQuery(rung.rows[number], frozenset(("word1", "word2")), 0.1, 0.7)
        (parts,) = times.measure("server: choose", new, choose, [Proposal("recent_turns", ids, 1, query)])
        events = [StreamEvent(1, part) for part in parts]
        sent = times.measure("server: to bytes", new, mapper.serialized, events)
        messages = times.measure("client: protobuf alone", new, anticipation_pb2.WatchEvent.FromString, sent)
        times.measure("server: protobuf alone", new, anticipation_pb2.WatchEvent.SerializeToString, messages)
        times.measure("client: take", new, take, messages)
    return dict(times.medians(_PUSHES - _WARM))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--new", type=int, action="append", help="items of each push; repeated: a run each")
    parser.add_argument("--csv", type=Path, help="append the figures to this table of results")
    chosen = parser.parse_args(arguments)
    measurements = []
    for new in chosen.new or (40, 80, 200):
        for stage, spent in measure(new).items():
            print(f"{new:4d} new  {stage:24} {spent:7.2f} us an item")
            measurements.append(Measurement("push_cost", f"{new} new items a push", stage, spent, "us"))
    if chosen.csv is not None:
        append_results(chosen.csv, measurements)


if __name__ == "__main__":
    main()
