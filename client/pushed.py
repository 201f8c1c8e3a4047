"""From a pushed item to a cached one: every check that it is this session's, and sound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from precall.client import convert
from precall.client.held_items import CachedItem
from precall.proto import anticipation_pb2

_LENGTH_TOLERANCE = 0.01
"""float16 moves the length of a unit vector by less than a thousandth."""


class Refusal(StrEnum):
    """Why a pushed item was not taken."""

    OWNERLESS = "ownerless"  # it names no id or no scope
    FOREIGN = "foreign"  # its scope is not on this session's lineage
    FINGERPRINT = "fingerprint"  # its vector is of another model
    DAMAGED = "damaged"  # a vector or an impact that cannot be right
    FULL = "full"  # it would outgrow the cache


@dataclass(frozen=True, slots=True)
class AppliedPush:
    """What one part of a push changed. ``settled``: it was the last part and its claims hold now."""

    settled: bool
    added: int
    refused: Mapping[Refusal, int]


@dataclass(frozen=True, slots=True)
class PushedVectors:
    """The vectors of one push part, or why there are none.

    ``rows``: float32, shape ``(items, dimension)``.  ``sound``: for each row, whether it has length 1.
    """

    rows: NDArray[np.float32]
    sound: Sequence[bool] = ()
    refusal: Refusal | None = None


def read_vectors(push: anticipation_pb2.Push, *, fingerprint: str) -> PushedVectors:
    """A row an item. Another model's fingerprint, or none, refuses them all."""
    nothing = np.empty((0, 0), np.float32)
    if not push.items:
        return PushedVectors(nothing)
    if push.vectors.model_fingerprint != fingerprint:
        return PushedVectors(nothing, refusal=Refusal.FINGERPRINT)
    try:
        rows = convert.vectors_from_wire(push.vectors)
    except ValueError:
        return PushedVectors(nothing, refusal=Refusal.DAMAGED)
    if len(rows) != len(push.items) or not rows.size:
        return PushedVectors(nothing, refusal=Refusal.DAMAGED)
    lengths = np.linalg.norm(rows, axis=1)
    return PushedVectors(rows, (np.abs(lengths - 1.0) <= _LENGTH_TOLERANCE).tolist())  # NaN: not sound


def read_item(
    pushed: anticipation_pb2.PushedItem, *, scope: Mapping[str, str], vector_bytes: int, elapsed: float
) -> CachedItem | Refusal:
    """The item, or why it is refused. ``scope`` is the session's; its lineage are the prefixes of it."""
    memory = pushed.memory
    levels = memory.scope.levels
    if not memory.id or not levels:
        return Refusal.OWNERLESS
    if any(scope.get(level) != value for level, value in levels.items()) or pushed.rung not in levels:
        return Refusal.FOREIGN
    try:
        impacts = convert.impacts_from_wire(pushed.impacts)
    except ValueError:
        return Refusal.DAMAGED
    return CachedItem(
        memory=memory,
        rung=pushed.rung,
        depth=len(levels),
        impacts=impacts,
        predictor=pushed.predictor,
        stamp=pushed.stamp,
        wire_bytes=pushed.ByteSize() + vector_bytes,
        held_since=elapsed,
        event_seconds=convert.unix_seconds(memory.event_time),
        servable_from=convert.servable_from(memory),
        servable_until=convert.servable_until(memory),
    )
