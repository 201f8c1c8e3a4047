"""What a client's stream carries, as plain data; the gRPC edge turns it into messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from precall.engine.change import ChangeCause
from precall.engine.memory.memory import IndexedMemory
from precall.scoring.keyword import Statistics


@dataclass(frozen=True, slots=True)
class PushedMemory:
    """A memory on its way into a cache, and the predictor that is to be credited or blamed for it."""

    indexed: IndexedMemory
    level: str
    predictor: str


@dataclass(frozen=True, slots=True)
class PushedCoverage:
    """No memory that the session may see and does not hold has a total above ``floor`` for this query.

    ``vector``: float32 unit vector, shape ``(dimension,)``. ``keyword_share``: of the fusion by which the
    floor is a total. ``negated``: the query denies something.
    """

    id: int
    vector: NDArray[np.float32]
    terms: frozenset[str]
    floor: float
    keyword_share: float
    version: int
    predictor: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class RungClaim:
    """What a session may believe of one rung. ``statistics``: None for a complete one, the client counts.

    ``vocabulary``: of all its terms, as `Vocabulary.data`; empty where the session was told before.
    """

    level: str
    complete: bool
    memories: int
    statistics: Statistics | None
    vocabulary: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A part of a difference; the claims of all parts of one ``push_id`` take effect with the ``last``.

    ``reset``: the client drops what it holds first. ``resumed``: it goes on from what it named when it opened
    the session, and claims nothing of before.
    """

    session_id: str
    push_id: int
    version: int
    reset: bool = False
    resumed: bool = False
    last: bool = True
    items: Sequence[PushedMemory] = ()
    evicted_ids: Sequence[str] = ()
    coverage: PushedCoverage | None = None
    retired_coverage_ids: Sequence[int] = ()
    rungs: Sequence[RungClaim] = ()
    caused_at: float | None = None
    caused_by_sequence: int = 0

    def parts(self, most: int) -> Sequence["Push"]:
        """Itself in messages of at most so many items: what it takes away goes with the first, what it
        claims with the last.
        """
        chunks = [self.items[start : start + most] for start in range(0, len(self.items), most)] or [()]
        first, last = 0, len(chunks) - 1
        return [
            replace(
                self,
                reset=self.reset and place == first,
                resumed=self.resumed and place == first,
                last=place == last,
                items=chunk,
                evicted_ids=self.evicted_ids if place == first else (),
                retired_coverage_ids=self.retired_coverage_ids if place == first else (),
                coverage=self.coverage if place == last else None,
                rungs=self.rungs if place == last else (),
            )
            for place, chunk in enumerate(chunks)
        ]


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Drop these memories from every session, and these sessions' caches whole."""

    memory_ids: Sequence[str]
    version: int
    cause: ChangeCause
    session_ids: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Everything that concerns the stream up to this version was sent before this event."""

    version: int
    wall_time: float


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """``model_scripts``: those that the model reads, as its card has them."""

    heartbeat_seconds: float
    lease_seconds: float
    maximum_age_seconds: float
    model_fingerprint: str
    wall_time: float
    model_scripts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SessionEnded:
    session_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Draining:
    grace_seconds: float


EventBody = Push | Invalidation | Heartbeat | StreamOpened | SessionEnded | Draining


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """``sequence`` counts from 1 without gaps; ``confirm``: somebody waits until this one was applied."""

    sequence: int
    body: EventBody
    confirm: bool = False
