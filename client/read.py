"""What a read returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from precall.client.memory import Memory


class ReadSource(StrEnum):
    """Who answered. BOTH: the cache was not sure of its answer and the server gave its own in time; the items
    are the server's, and what the cache was told of since.
    """

    CACHE = "cache"
    SERVER = "server"
    BOTH = "both"


class ReadStatus(StrEnum):
    """HIT: there are memories. It does not say that they fit the query: the best of what there is comes back,
    however little it has to do with it, unless ``min_relevance`` draws a line. EMPTY: there is nothing, or
    nothing as relevant as that. DEGRADED: see ``Read.reason``.
    """

    HIT = "hit"
    EMPTY = "empty"
    DEGRADED = "degraded"


class ReadDecision(StrEnum):
    """Why this source answered. The first four are the cache's own judgement of what it holds."""

    COMPLETE = "complete"  # it holds every memory that the session may see
    SURE = "sure"  # what it does not hold cannot reach the top
    BORDERLINE = "borderline"  # the server was raced against the deadline
    MISS = "miss"  # the server was asked
    STALE = "stale"  # the cache may be behind: the stream is silent, broken, or not yet answered
    BEHIND = "behind"  # the read demands a version that the cache has not reached
    UNENCODED = "unencoded"  # the query could not be embedded in this process


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts of a total; each lies in [0, 1] before its weight. ``rerank``: ACCURATE search alone."""

    total: float
    relevance: float
    importance: float
    recency: float
    dense: float
    keyword: float
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class ReadItem:
    """One memory that answers, with why it stands where it stands.

    ``rung``: the ladder level that it stands on. ``age``: since its event. ``predictor``: what made the
    server push it; empty when the server answered.
    """

    memory: Memory
    score: ScoreParts
    rung: str
    age: timedelta
    predictor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An answer. ``text`` is a block for the prompt within the budget; ``items`` are all that were asked for.

    included_ids: of the memories that the block holds, in their order. One that is too large for what is left
    of the budget is passed over, never cut.
    reason: why the status is degraded, or why the server's answer was not waited for; else empty.
    version: of the tenant's memories that the answer reflects.
    staleness_ms: since the server was last heard from; 0 when it answered itself.
    truncated: the query was longer than the model takes, and its beginning was used.
    encode_ms, lookup_ms, server_ms, block_ms: the query's embedding in this process, scoring what is held,
    the wait for the server (0: it was not asked), and rendering. elapsed_ms: everything.
    """

    text: str
    items: tuple[ReadItem, ...]
    included_ids: tuple[str, ...]
    source: ReadSource
    status: ReadStatus
    decision: ReadDecision
    reason: str
    version: int
    staleness_ms: float
    truncated: bool
    encode_ms: float
    lookup_ms: float
    server_ms: float
    block_ms: float
    elapsed_ms: float

    @property
    def included(self) -> int:
        """How many memories the block holds."""
        return len(self.included_ids)

    @property
    def used_ids(self) -> tuple[str, ...]:
        """What ``observe(..., used=read)`` reports: the memories that the block holds."""
        return self.included_ids


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The server's own answer to a search. ``visible``: memories on the rungs searched.

    ``model_fingerprint``: of the model whose vectors were compared; empty from a server that does not say.
    """

    items: Sequence[ReadItem]
    version: int
    visible: int
    truncated: bool
    parts: tuple[str, ...] = ()
    model_fingerprint: str = ""
