"""Memories, questions and filters of a small world, in which words, keys and moments meet often."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MemoryKind, NewMemory, Source
from tests.fakes.clock import FakeClock
from tests.fakes.memories import WORDS, moment
from tests.properties.service import Given

Item = TypeVar("Item")

TENANTS = ("acme", "rival")
ACME, DANA, OMAR, LI, STRANGER = RUNGS = (
    Rung(("acme",)),
    Rung(("acme", "dana")),
    Rung(("acme", "omar")),
    Rung(("acme", "li")),
    Rung(("globex", "dana")),
)
KEYS = ("home", "job")
CONVERSATIONS = ("x", "y")
START = FakeClock().wall()
EVENTS = (-40 * 86_400, -7_300, -1_800, -600, -600, 0, 0, 900, 5_000)
"""Seconds from `START` at which things happen: apart by less than an hour, by more, and at one moment."""

chances = st.randoms(use_true_random=False)
tenants = st.sampled_from(TENANTS)
rungs = st.sampled_from(RUNGS)
keys = st.sampled_from(KEYS)
sizes = st.lists(st.integers(1, 2), min_size=2, max_size=3)
limits = st.sampled_from((1, 2, 3, 5, 50))
texts = st.lists(st.sampled_from(WORDS[:7]), min_size=1, max_size=4).map(" ".join)
SOURCES = (
    Source(conversation_id="x"),
    Source(conversation_id="x", turn_id="1"),
    Source(conversation_id="y"),
    Source(conversation_id="y", turn_id="1"),
    Source(uri="mail://1"),
    Source(uri="mail://2"),
)
sources = st.sampled_from(SOURCES)
every_filter = st.builds(
    MemoryFilter,
    kinds=st.sampled_from((frozenset(), frozenset({MemoryKind.EPISODE}))),
    metadata=st.sampled_from(({}, {}, {"colour": "red"})),
    event_from=st.none() | st.just(moment(START - 600)),
    event_until=st.none() | st.just(moment(START + 900)),
    conversation_ids=st.sampled_from((frozenset(), frozenset({"x"}))),
    keys=st.sampled_from((frozenset(), frozenset(KEYS))),
    pinned_only=st.booleans(),
)
wide_filters = st.sampled_from(
    (
        MemoryFilter(kinds=frozenset({MemoryKind.EPISODE})),
        MemoryFilter(kinds=frozenset({MemoryKind.FACT, MemoryKind.PREFERENCE})),
        MemoryFilter(metadata={"colour": "red"}),
        MemoryFilter(event_from=moment(START - 600), event_until=moment(START + 900)),
        MemoryFilter(conversation_ids=frozenset({"x", "y"})),
        MemoryFilter(keys=frozenset(KEYS)),
        MemoryFilter(pinned_only=True),
    )
)
"""What a part of the memories passes: the best few of these are not the best few of all."""
asked_filters = st.one_of(st.none(), wide_filters, wide_filters, every_filter)


def some_of(chance: Random, items: Sequence[Item], most: int = 1) -> list[Item]:
    """Up to ``most`` different ones, none of none.

    What is drawn does not depend on what there is: writes side by side end in either order, and a life has to
    be drawn alike each time.
    """
    numbers = [chance.randrange(2**16) for _ in range(most)]
    return (
        [items[place] for place in dict.fromkeys(number % len(items) for number in numbers)] if items else []
    )


def memory_id(number: int) -> str:
    """Of the ``number``-th memory of a tenant: two tenants have the same ids."""
    return str(uuid.UUID(int=number))


def some_memory(chance: Random, number: int, known: Sequence[str], now: float) -> NewMemory:
    """``known``: what it may be derived from; ``now``: what its validity and expiry lie about."""
    lasts = chance.choice((None, None, None, None, None, now + 3, now + 40))
    until, begins = (chance.choice((None, None, None, None, None, None, now - 1, now + 5)) for _ in "ub")
    if until is not None and begins is not None and until <= begins:
        until = begins + 30
    derived, origins = chance.randrange(6) == 0, some_of(chance, known)
    event = moment(START + chance.choice(EVENTS))
    return NewMemory(
        id=memory_id(number),
        rung=chance.choice(RUNGS),
        text=" ".join(chance.choice(WORDS[:7]) for _ in range(chance.choice((1, 2, 2, 3, 4)))),
        event_time=event,
        said_time=event,
        kind=chance.choice((MemoryKind.FACT, MemoryKind.PREFERENCE, MemoryKind.EPISODE, MemoryKind.EPISODE)),
        key=chance.choice(("", "", *KEYS)),
        importance=chance.choice((0.5, 0.5, 0.0, 1.0)),
        valid_from=None if begins is None else moment(begins),
        valid_until=None if until is None else moment(until),
        expires_at=None if lasts is None else moment(lasts),
        source=replace(chance.choice((Source(), *SOURCES)), memory_ids=tuple(origins) if derived else ()),
        questions=chance.choice(((), (), ("who has the rent",))),
        metadata=chance.choice(({}, {"colour": "red"}, {"colour": "blue", "size": "5"})),
        pinned=chance.choice((False, True)),
    )


def some_given(chance: Random, models: Sequence[str]) -> Given | None:
    """A vector of one of these models, or more often none; what is drawn does not depend on ``models``."""
    words = " ".join(chance.choice(WORDS[:7]) for _ in range(3))
    number = chance.randrange(6)
    return Given(models[number % len(models)], words) if number < 2 else None
