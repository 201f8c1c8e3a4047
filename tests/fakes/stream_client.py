"""A client reduced to what the server's promises are about: a cache that follows the stream's events."""

from dataclasses import dataclass, field

from precall.engine.anticipation.events import (
    Heartbeat,
    Invalidation,
    Push,
    PushedCoverage,
    PushedMemory,
    RungClaim,
    SessionEnded,
    StreamEvent,
)
from precall.engine.anticipation.stamp import stamp_of
from precall.engine.anticipation.stream import Stream
from precall.scoring.keyword import Statistics


@dataclass
class StreamClient:
    """One session's cache. Claims take effect with the last part of a push, as the contract says."""

    session_id: str
    items: dict[str, PushedMemory] = field(default_factory=dict)
    coverages: dict[int, PushedCoverage] = field(default_factory=dict)
    rungs: dict[str, RungClaim] = field(default_factory=dict)
    frequencies: dict[str, dict[str, int]] = field(default_factory=dict)
    version: int = 0
    applied: int = 0
    pushes: list[Push] = field(default_factory=list)
    ended: bool = False

    def apply(self, event: StreamEvent) -> None:
        assert event.sequence == self.applied + 1, "a gap in the stream"
        self.applied = event.sequence
        match event.body:
            case Push() as push if push.session_id == self.session_id:
                self._push(push)
            case Invalidation() as invalidation:
                for memory_id in invalidation.memory_ids:
                    self.items.pop(memory_id, None)
                if self.session_id in invalidation.session_ids:
                    self.clear()
            case Heartbeat() as heartbeat:
                if self.rungs:
                    self.version = max(self.version, heartbeat.version)
            case SessionEnded() as end if end.session_id == self.session_id:
                self.clear()
                self.ended = True
            case _:
                pass

    def clear(self) -> None:
        for part in (self.items, self.coverages, self.rungs, self.frequencies):
            part.clear()
        self.version = 0

    def go_on(self) -> None:
        """Hold what is held, and claim nothing of before."""
        for part in (self.coverages, self.rungs, self.frequencies):
            part.clear()
        self.version = 0

    def stamps(self) -> dict[str, int]:
        """Id -> the server's stamp of everything held."""
        return {memory_id: stamp_of(item.indexed) for memory_id, item in self.items.items()}

    def _push(self, push: Push) -> None:
        self.pushes.append(push)
        if push.reset:
            self.clear()
        if push.resumed:
            self.go_on()
        for memory_id in push.evicted_ids:
            # A resumed push takes back what an earlier connection may have brought, whether it did or not.
            gone = self.items.pop(memory_id, None)
            assert gone is not None or push.resumed
        for item in push.items:
            assert item.indexed.memory.id not in self.items, "an item was sent that is held"
            self.items[item.indexed.memory.id] = item
        for coverage_id in push.retired_coverage_ids:
            self.coverages.pop(coverage_id, None)
        if not push.last:
            assert not push.rungs and push.coverage is None, "claims travel with the last part"
            return
        for claim in push.rungs:
            self.rungs[claim.level] = claim
            if claim.statistics is not None:
                self.frequencies.setdefault(claim.level, {}).update(claim.statistics.frequencies)
        if push.coverage is not None:
            self.coverages[push.coverage.id] = push.coverage
        self.version = max(self.version, push.version)

    def held(self, level: str) -> set[str]:
        return {memory_id for memory_id, item in self.items.items() if item.level == level}

    def statistics(self, terms: set[str]) -> Statistics:
        """What the client may count with: complete rungs by their items, others by what it was told."""
        parts = []
        for level, claim in self.rungs.items():
            impacts = [item.indexed.impacts for item in self.items.values() if item.level == level]
            counted = {term: sum(term in each for each in impacts) for term in terms}
            told = self.frequencies.get(level, {})
            if claim.complete:
                parts.append(Statistics(len(impacts), counted))
            else:
                assert claim.statistics is not None
                parts.append(
                    Statistics(claim.statistics.documents, {t: told.get(t, counted[t]) for t in terms})
                )
        return Statistics.sum(parts, terms)

    def drain(self, stream: Stream) -> None:
        """Apply all that is queued, without waiting, and say so."""
        while stream._queue:
            self.apply(stream._take())
        stream.acknowledge(self.applied)
