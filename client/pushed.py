"""From a pushed item to a cached one: every check that it is this session's, and sound."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from precall.client import convert
from precall.client.held_items import CachedItem, ItemBlock
from precall.proto import anticipation_pb2
from precall.scoring.vectors import widened

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


def read_items(
    push: anticipation_pb2.Push,
    *,
    scope: Mapping[str, str],
    fingerprint: str,
    dimension: int,
    elapsed: float,
) -> "ReadItems":
    """What may be taken of a part's items, in order, and what may not.

    ``scope`` is the session's; its lineage are the prefixes of it. ``fingerprint`` and ``dimension``: of the
    model of its vectors; 0: whatever comes. ``elapsed``: from when they age.
    """
    refused: Counter[Refusal] = Counter()
    vectors = _read_vectors(push, fingerprint=fingerprint, dimension=dimension)
    if isinstance(vectors, Refusal):
        refused[vectors] = len(push.items)
        return ReadItems((), np.empty((0, 0), np.float16), refused)
    lengths = np.linalg.norm(widened(vectors), axis=1)
    sound = (np.abs(lengths - 1.0) <= _LENGTH_TOLERANCE).tolist()  # NaN: not sound
    vector_bytes = len(push.vectors.data) // max(len(push.items), 1)
    taken = []
    for row, message in enumerate(push.items):
        read = _read_item(message, scope=scope, vector_bytes=vector_bytes, elapsed=elapsed, row=row)
        if isinstance(read, Refusal):
            refused[read] += 1
        elif not sound[row]:
            refused[Refusal.DAMAGED] += 1
        else:
            taken.append(read)
    weights = np.frombuffer(b"".join([read.weights for read in taken]), "<f4")
    if not (weights > 0).all():  # NaN fails this too
        positive = [read for read in taken if (np.frombuffer(read.weights, "<f4") > 0).all()]
        refused[Refusal.DAMAGED] += len(taken) - len(positive)
        taken = positive
    return ReadItems(taken, vectors, refused)


@dataclass(frozen=True, slots=True)
class ReadItem:
    """An item, its words, their weights as little-endian float32, and the row of its vector."""

    item: CachedItem
    terms: Sequence[str]
    weights: bytes
    row: int


@dataclass(frozen=True, slots=True)
class ReadItems:
    """``vectors``: as sent, shape ``(items of the part, dimension)``. ``refused``: how many, and why.

    Of several items of one id the last one counts.
    """

    items: Sequence[ReadItem]
    vectors: NDArray[np.floating]
    refused: "Counter[Refusal]"

    @property
    def ids(self) -> list[str]:
        return [each.item.memory.id for each in self.items]

    def fitting(self, items: int, size: int) -> list[ReadItem]:
        """Those that find room for so many items of so many bytes in all; the others are refused as FULL."""
        fitting = []
        for each in dict(zip(self.ids, self.items, strict=True)).values():
            if items and each.item.wire_bytes <= size:
                items, size = items - 1, size - each.item.wire_bytes
                fitting.append(each)
            else:
                self.refused[Refusal.FULL] += 1
        return fitting

    def block(self, chosen: Sequence[ReadItem]) -> ItemBlock:
        """Some of the items, to be held."""
        return ItemBlock(
            [each.item for each in chosen],
            self.vectors[[each.row for each in chosen]],
            [each.terms for each in chosen],
            np.frombuffer(b"".join([each.weights for each in chosen]), "<f4"),
        )


def _read_vectors(
    push: anticipation_pb2.Push, *, fingerprint: str, dimension: int
) -> NDArray[np.floating] | Refusal:
    """A row an item, as sent. Another model's fingerprint, or none, refuses them all."""
    if not push.items:
        return np.empty((0, dimension), np.float16)
    if push.vectors.model_fingerprint != fingerprint:
        return Refusal.FINGERPRINT
    try:
        rows = convert.sent_vectors(push.vectors)
    except ValueError:
        return Refusal.DAMAGED
    fits = len(rows) == len(push.items) and rows.size and dimension in (0, rows.shape[1])
    return rows if fits else Refusal.DAMAGED


def _read_item(
    pushed: anticipation_pb2.PushedItem,
    *,
    scope: Mapping[str, str],
    vector_bytes: int,
    elapsed: float,
    row: int,
) -> ReadItem | Refusal:
    memory = pushed.memory
    levels = dict(memory.scope.levels)
    if not memory.id or not levels:
        return Refusal.OWNERLESS
    if not levels.items() <= scope.items() or pushed.rung not in levels:
        return Refusal.FOREIGN
    terms, weights = list(pushed.impacts.terms), pushed.impacts.weights
    if len(weights) != 4 * len(terms) or len(set(terms)) != len(terms):
        return Refusal.DAMAGED
    item = CachedItem(
        memory=memory,
        rung=pushed.rung,
        depth=len(levels),
        predictor=pushed.predictor,
        stamp=pushed.stamp,
        wire_bytes=pushed.ByteSize() + vector_bytes,
        held_since=elapsed,
        event_seconds=convert.unix_seconds(memory.event_time),
        servable_from=convert.servable_from(memory),
        servable_until=convert.servable_until(memory),
    )
    return ReadItem(item, terms, weights, row)
