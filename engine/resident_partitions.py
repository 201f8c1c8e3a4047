"""One tenant's partitions that are in memory: read when they are wanted, held while they are used."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload
from weakref import WeakSet

from precall.engine.footprint import Footprint
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.residency import Residency


@dataclass(frozen=True, slots=True)
class LoadedPartition:
    """A partition as it was read from the disk, and what it takes."""

    partition: Partition
    footprint: Footprint


class ResidentPartition:
    """A partition in memory, and who holds it there."""

    def __init__(self, name: str, loaded: LoadedPartition, forget: Callable[[], None]) -> None:
        """``name``: for the log. ``forget`` is called when it has to go."""
        self.name = name
        self.partition = loaded.partition
        self.footprint = loaded.footprint
        self.let_go = forget
        self.holders: WeakSet[Lineage] = WeakSet()

    @property
    def nbytes(self) -> int:
        return self.footprint.of(self.partition)

    @property
    def in_use(self) -> bool:
        return len(self.holders) > 0


class Lineage(Sequence[Partition]):
    """The partitions that a reader may see, the narrowest first. They stay in memory while this object lives.

    A search has it for as long as it runs, a session for as long as it is open; none has to remember to
    give it back.
    """

    def __init__(self, *residents: ResidentPartition) -> None:
        self._partitions: list[Partition] = []
        self.residents: list[ResidentPartition] = []
        for resident in residents:
            self.hold(resident)

    def hold(self, resident: ResidentPartition) -> None:
        """Put one more behind the others."""
        resident.holders.add(self)
        self.residents.append(resident)
        self._partitions.append(resident.partition)

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions)

    @overload
    def __getitem__(self, index: int) -> Partition: ...
    @overload
    def __getitem__(self, index: slice) -> list[Partition]: ...
    def __getitem__(self, index: int | slice) -> Partition | list[Partition]:
        return self._partitions[index]


class ResidentPartitions(Mapping[Rung, Partition]):
    """Rung -> partition, of those in memory. Only the event loop may call in, but for ``get``.

    A write needs to hold nothing: what it changes is durable first, and what is not in memory, or leaves it
    in the middle of the write, is read afterwards in a turn of its own.
    """

    def __init__(
        self,
        tenant_id: str,
        residency: Residency,
        loads: asyncio.Semaphore,
        load: Callable[[Rung], LoadedPartition],
    ) -> None:
        """``loads``: what all tenants' loads take one of. ``load`` reads a rung from the disk, in a
        thread.
        """
        self._tenant_id = tenant_id
        self._residency = residency
        self._loads = loads
        self._load = load
        self._residents: dict[Rung, ResidentPartition] = {}
        self._loading: dict[Rung, asyncio.Task[Lineage]] = {}

    def __len__(self) -> int:
        return len(self._residents)

    def __iter__(self) -> Iterator[Rung]:
        return iter(self._residents)

    def __getitem__(self, rung: Rung) -> Partition:
        return self._residents[rung].partition

    async def lineage(self, rung: Rung, turn: asyncio.Lock) -> Lineage:
        """What a reader on ``rung`` may see; cold partitions are read, each once for all who wait for it.

        ``turn``: whoever holds it sees disk and memory agree, and no change begins.
        """
        lineage = Lineage()
        for visible in rung.lineage():
            if (resident := self._residents.get(visible)) is not None:
                self._residency.used(resident)
                lineage.hold(resident)
            else:
                loaded = await asyncio.shield(self._begin(visible, turn))
                lineage.hold(*loaded.residents)
        self._residency.make_room()  # of what others held when there was none
        return lineage

    def wrote(self, memories: Iterable[IndexedMemory]) -> None:
        """These were added to whichever of the partitions are in memory."""
        grown: dict[Rung, ResidentPartition] = {}
        for indexed in memories:
            rung = indexed.memory.rung
            if (resident := self._residents.get(rung)) is not None:
                resident.footprint.count(indexed)
                grown[rung] = resident
        for resident in grown.values():
            self._residency.grew(resident)

    def clear(self) -> None:
        """Forget them all: the tenant is closed, or they are not what the disk has any more."""
        for resident in self._residents.values():
            self._residency.forget(resident)
        self._residents.clear()

    def _begin(self, rung: Rung, turn: asyncio.Lock) -> asyncio.Task[Lineage]:
        """The load in progress or a new one; what it returns keeps the partition from going again at once."""
        loading = self._loading.get(rung)
        if loading is None:
            loading = self._loading[rung] = asyncio.create_task(self._run(rung, turn))
            loading.add_done_callback(lambda task: self._end(rung, task))
        return loading

    def _end(self, rung: Rung, task: asyncio.Task[Lineage]) -> None:
        del self._loading[rung]
        if not task.cancelled():
            task.exception()  # seen, even if everybody who waited for it is gone

    async def _run(self, rung: Rung, turn: asyncio.Lock) -> Lineage:
        begin = time.perf_counter()
        # The turn is taken last: a tenant's writes must not wait for other tenants' loads.
        async with self._loads, turn:
            loaded = await asyncio.to_thread(self._load, rung)
            name = f"a rung of tenant {self._tenant_id}"
            resident = ResidentPartition(name, loaded, lambda: self._forget(rung))
            self._residents[rung] = resident
            lineage = Lineage(resident)
            self._residency.admit(resident)
        self._residency.observer.partition_loaded(time.perf_counter() - begin)
        return lineage

    def _forget(self, rung: Rung) -> None:
        del self._residents[rung]
