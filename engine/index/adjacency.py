"""Which memories of a rung stand near one of them, or stand out: asked of a partition's `look`.

They give ids, most telling first. Of a rung of 100,000 memories a look takes under two milliseconds, which
searches of the rung wait for.
"""

from collections.abc import Iterable
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from precall.engine.index.facets import FacetIndex
from precall.engine.index.filter import Facet, key_family
from precall.engine.memory.memory import Memory
from precall.scoring.memory_set import MemorySet


def said_around(held: MemorySet, facets: FacetIndex, memory: Memory, *, reach: int) -> list[str]:
    """Up to ``reach`` memories of the same conversation before it and as many after, the nearest first.

    What was said next comes before what was said before it.
    """
    if not memory.source.conversation_id or memory.id not in held:
        return []
    slots = facets.having(("conversation", memory.source.conversation_id))
    here = held.slot(memory.id)
    later = held.event_seconds[slots] - held.event_seconds[here]
    after, before = (
        (later > 0) | ((later == 0) & (slots > here)),
        (later < 0) | ((later == 0) & (slots < here)),
    )
    following = _earliest(held, slots[after], reach)
    preceding = _latest(held, slots[before], reach)
    return [each for pair in zip_longest(following, preceding) for each in pair if each is not None]


def related_by_key(held: MemorySet, facets: FacetIndex, key: str, *, limit: int) -> list[str]:
    """Memories with the same key, then the latest of its family."""
    if not key:
        return []
    same, family = facets.having(("key", key)), facets.having(("family", key_family(key)))
    near = [*_latest(held, same, limit), *_latest(held, family, limit)]
    return list(dict.fromkeys(near))[:limit]


def with_facet(held: MemorySet, facets: FacetIndex, facet: Facet, *, now: float, limit: int) -> list[str]:
    """The latest memories that have a facet, and may still be served at ``now`` (Unix seconds)."""
    slots = facets.having(facet)
    return _latest(held, slots[held.servable_until[slots] > now], limit)


def latest(held: MemorySet, *, now: float, limit: int) -> list[str]:
    """The memories of the latest events, of those that may still be served."""
    return _latest(held, _servable(held, now), limit)


def most_important(held: MemorySet, *, above: float, now: float, limit: int) -> list[str]:
    """Those with the highest importance over ``above``, the latest first among equals."""
    slots = np.flatnonzero((held.importance > above) & (held.servable_until > now))
    if len(slots) > limit:
        bar = np.partition(held.importance[slots], len(slots) - limit)[len(slots) - limit]
        slots = slots[held.importance[slots] >= bar]
    order = np.lexsort((slots, held.event_seconds[slots], held.importance[slots]))[::-1]
    return _ids(held, slots[order[:limit]])


def _latest(held: MemorySet, slots: NDArray[np.int64], limit: int) -> list[str]:
    """The ``limit`` of these slots with the latest events, the latest first."""
    if len(slots) > limit:
        seconds = held.event_seconds[slots]
        slots = slots[seconds >= np.partition(seconds, len(slots) - limit)[len(slots) - limit]]
    order = np.lexsort((slots, held.event_seconds[slots]))[::-1]
    return _ids(held, slots[order[:limit]])


def _earliest(held: MemorySet, slots: NDArray[np.int64], limit: int) -> list[str]:
    """The ``limit`` of these slots with the earliest events, the earliest first."""
    if len(slots) > limit:
        seconds = held.event_seconds[slots]
        slots = slots[seconds <= np.partition(seconds, limit - 1)[limit - 1]]
    order = np.lexsort((slots, held.event_seconds[slots]))
    return _ids(held, slots[order[:limit]])


def _servable(held: MemorySet, now: float) -> NDArray[np.int64]:
    return np.flatnonzero(held.servable_until > now)


def _ids(held: MemorySet, slots: Iterable[np.int64]) -> list[str]:
    return [held.ids[slot] for slot in slots]
