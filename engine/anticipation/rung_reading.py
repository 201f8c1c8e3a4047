"""The memories that a session's first push is made of, read before the session opens."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from precall.engine.anticipation.item_size import size_of
from precall.engine.anticipation.stamp import stamp_of
from precall.engine.index.partition import Partition
from precall.engine.memory.memory import IndexedMemory

_SLICE: Final = 25
"""Memories between two turns of the event loop: about a millisecond."""
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class ReadMemory:
    """``size``: as `size_of` has it. ``stamp``: as `stamp_of`, where a client names the memory."""

    indexed: IndexedMemory
    size: int
    stamp: int | None


@dataclass(frozen=True, slots=True)
class RungReading:
    """Memories of a partition by id, as they stood after so many of its changes.

    ``whole``: these are all of them, and few enough to be held whole.
    """

    partition: Partition
    changes: int
    memories: Mapping[str, ReadMemory]
    whole: bool

    @property
    def holds(self) -> bool:
        """Whether the partition has not changed since."""
        return self.partition.changes == self.changes


class RungReadings:
    """For one session that opens. Two thousand memories take tens of milliseconds to read: `prepare` gives
    way to the event loop time and again, and `settled` reads on the spot only what has changed meanwhile.
    """

    def __init__(self, *, complete_below: int, named: Mapping[str, int] | None) -> None:
        """Rungs of up to ``complete_below`` memories are read whole, of others what the client ``named``.

        named: id -> stamp of what it holds of an earlier connection and goes on with; None: it begins with
        nothing.
        """
        self.named = named
        self._complete_below = complete_below
        self._readings: dict[int, RungReading] = {}  # id of the partition

    async def prepare(self, partitions: Sequence[Partition]) -> None:
        """Read them, a slice at a time; anew where a write comes between, as often as makes sense."""
        for partition in partitions:
            for _ in range(_TRIES):
                changes, whole = partition.changes, self._is_small(partition)
                memories: dict[str, ReadMemory] = {}
                for slice_ in self._slices(partition):
                    memories.update(slice_)
                    await asyncio.sleep(0)
                self._readings[id(partition)] = reading = RungReading(partition, changes, memories, whole)
                if reading.holds:
                    break

    def settled(self, partitions: Sequence[Partition]) -> Sequence[RungReading]:
        """One of each partition, true at this moment."""
        return [self._settled(partition) for partition in partitions]

    def _settled(self, partition: Partition) -> RungReading:
        prepared = self._readings.get(id(partition))
        if prepared is not None and prepared.partition is partition and prepared.holds:
            return prepared
        memories = {key: each for slice_ in self._slices(partition) for key, each in slice_.items()}
        return RungReading(partition, partition.changes, memories, self._is_small(partition))

    def _is_small(self, partition: Partition) -> bool:
        return len(partition) <= self._complete_below

    def _slices(self, partition: Partition) -> Iterator[Mapping[str, ReadMemory]]:
        named = self.named or {}
        ids = partition.ids if self._is_small(partition) else [i for i in named if i in partition]
        for start in range(0, len(ids), _SLICE):
            found = {i: partition.indexed(i) for i in ids[start : start + _SLICE]}
            yield {
                memory_id: ReadMemory(
                    indexed, size_of(indexed), stamp_of(indexed) if memory_id in named else None
                )
                for memory_id, indexed in found.items()
                if indexed is not None
            }
