"""A server without disk or network: partitions, versions and a real anticipator, on a clock of the test's."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.anticipation.observer import SilentObserver
from precall.engine.anticipation.recent_turns import RecentTurns
from precall.engine.anticipation.rung_reading import RungReadings
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import Stream
from precall.engine.change import Change, ChangeCause
from precall.engine.clock import Clock
from precall.engine.encoding.card import ModelCard, Pooling
from precall.engine.index.partition import Partition, PartitionSettings
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.outcomes import RemovedMemory
from precall.scoring.vectors import unit
from tests.fakes.memories import indexed

DIMENSION: Final = 16
CARD: Final = ModelCard(
    name="words",
    revision="1",
    weights_sha256="0" * 64,
    dimension=DIMENSION,
    max_tokens=64,
    pooling=Pooling.MEAN,
    scripts=("latin",),
)

LADDER: Final = Ladder(("customer", "user"))


def embed_words(text: str) -> NDArray[np.float32]:
    """Texts that share words get near vectors; float32 unit vector, ``(DIMENSION,)``."""
    words = re.findall(r"\w+", text.lower()) or ["nothing"]
    return unit(np.sum([_direction(word) for word in words], axis=0))


@cache
def _direction(word: str) -> NDArray[np.float64]:
    return np.random.default_rng(list(word.encode())).standard_normal(DIMENSION)


async def embed_at_once(text: str) -> NDArray[np.float32]:
    return embed_words(text)


Embed: TypeAlias = Callable[[str], Awaitable[NDArray[np.float32]]]


@dataclass(frozen=True)
class WordModel:
    """The model of this world."""

    embed_turn: Embed = embed_at_once
    card: ModelCard = CARD


class World:
    """Writes take effect in the order that `Tenant` gives them: partitions, version, announcement."""

    def __init__(
        self,
        clock: Clock,
        settings: AnticipationSettings | None = None,
        *,
        embed: Embed = embed_at_once,
        exact_below: int = 10**9,
    ) -> None:
        self.clock = clock
        self.settings = settings or AnticipationSettings()
        self._partition_settings = PartitionSettings(exact_below=exact_below)
        self._partitions: dict[str, dict[Rung, Partition]] = {}
        self.versions: dict[str, int] = {}
        self.history: dict[str, dict[int, dict[str, IndexedMemory]]] = {}
        """Tenant -> version -> id -> every memory that was current then."""
        self._model = WordModel(embed)
        predictor = RecentTurns(clock, items_per_query=self.settings.items_per_query)
        self.anticipator = Anticipator(self.settings, [predictor], clock, SilentObserver())

    def memory(self, memory_id: str, rung: Rung, text: str, **fields: object) -> IndexedMemory:
        return indexed(
            memory_id, rung, vector=embed_words(text), text=text, event=self.clock.wall(), **fields
        )

    def lineage(self, tenant_id: str, rung: Rung) -> list[Partition]:
        made = self._partitions.setdefault(tenant_id, {})
        for each in rung.lineage():
            made.setdefault(each, Partition(each, DIMENSION, self._partition_settings))
        return [made[each] for each in rung.lineage()]

    def current(self, tenant_id: str) -> dict[str, IndexedMemory]:
        return self.history.get(tenant_id, {}).get(self.versions.get(tenant_id, 0), {})

    def write(
        self, tenant_id: str, added: Sequence[IndexedMemory] = (), removed: Iterable[str] = ()
    ) -> Confirmation:
        """Commit one version; the caller awaits the confirmation as a writer awaits its ack."""
        current = dict(self.current(tenant_id))
        gone = [RemovedMemory(memory_id, current.pop(memory_id).memory.rung) for memory_id in removed]
        terms: set[str] = set()
        for rung in {each.memory.rung for each in added} | {each.rung for each in gone}:
            partition = self.lineage(tenant_id, rung)[0]
            leaving = [each.id for each in gone if each.rung == rung]
            terms |= partition.terms(leaving)
            partition.apply(added=[each for each in added if each.memory.rung == rung], removed=leaving)
        current.update((each.memory.id, each) for each in added)
        version = self.versions[tenant_id] = self.versions.get(tenant_id, 0) + 1
        self.history.setdefault(tenant_id, {})[version] = current
        fresh = [each for each in added if each.memory.id not in {item.id for item in gone}]
        cause = (ChangeCause.SUPERSEDED if fresh else ChangeCause.DELETED) if gone else ChangeCause.WRITTEN
        return self.anticipator.announce(Change(tenant_id, version, cause, added, gone, frozenset(terms)))

    def open_stream(self, tenant_id: str, stream_id: str) -> Stream:
        return self.anticipator.open_stream(tenant_id, stream_id, CARD)

    def open_session(
        self,
        tenant_id: str,
        stream_id: str,
        session_id: str,
        rung: Rung,
        *,
        conversation_id: str = "",
        attempt: int = 0,
        named: Mapping[str, int] | None = None,
        readings: RungReadings | None = None,
        **limits: int,
    ) -> Session:
        return self.anticipator.open_session(
            tenant_id=tenant_id,
            stream_id=stream_id,
            session_id=session_id,
            conversation_id=conversation_id,
            rung=rung,
            ladder=LADDER,
            model=self._model,
            partitions=self.lineage(tenant_id, rung),
            version=self.versions.get(tenant_id, 0),
            attempt=attempt,
            readings=readings or self.anticipator.readings(named),
            **limits,
        )
