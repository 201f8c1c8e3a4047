"""Prometheus metrics of one agent's process, for those who scrape it; needs the extra ``precall[metrics]``.

    AsyncClient(..., hooks=[ClientMetrics()])

The server exports what all its clients report. This is for an agent that cannot be seen from there: while the
server is away, say. No label holds a session, a user, or what a caller can make up.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from precall.client.errors import ExtraMissing
from precall.client.read import Read, ReadSource, ReadStatus
from precall.client.state import SessionState
from precall.client.tracing import (
    ClientEvent,
    PushApplied,
    ReadChecked,
    ReadFinished,
    SessionClosed,
    SessionOpened,
    StreamDown,
    StreamUp,
)

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise ExtraMissing(
        "precall.client.metrics needs Prometheus' client: install precall[metrics]"
    ) from missing

BUCKETS: Final = tuple(
    milliseconds / 1000
    for milliseconds in (
        0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 20, 30, 50, 100, 250, 500, 1000, 2500
    )
)  # fmt: skip
"""The server's: dense around the 15 ms that the product promises."""

HIT_WINDOW: Final = 1000
"""Reads that the hit ratio is taken over."""


class ClientMetrics:
    """A hook. One may serve several clients of a process; ``registry`` defaults to Prometheus' own."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Raises ValueError when the registry has these metrics already."""
        self._hits: deque[bool] = deque(maxlen=HIT_WINDOW)
        self._sessions = _OpenSessions()
        self._read_time = Histogram(
            "precall_client_read_seconds", "A read, its query's embedding included, by outcome.",
            ["source", "status", "decision"], buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self._failed = Counter(
            "precall_client_failed_reads_total", "Reads that were cancelled or refused.", registry=registry
        )
        self._checked = Counter(
            "precall_client_checked_reads_total", "Cached answers compared with the server's, afterwards.",
            ["outcome"], registry=registry,
        )  # fmt: skip
        self._lead = Histogram(
            "precall_client_prefetch_lead_seconds", "From an observation to its push held here.",
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self._streams = Gauge(
            "precall_client_streams", "Connections to the server that stand.", registry=registry
        )
        self._strict = Gauge(
            "precall_client_strict", "1 while checks found too many cached answers wrong.", registry=registry
        )
        hit_ratio = Gauge(
            "precall_client_hit_ratio",
            f"Of the last {HIT_WINDOW} reads, those that the cache answered alone and not degraded.",
            registry=registry,
        )
        hit_ratio.set_function(self._hit_ratio)
        registry.register(self._sessions)

    def __call__(self, event: ClientEvent) -> None:
        """Called by the client."""
        match event:
            case ReadFinished(read=None):
                self._failed.inc()
            case ReadFinished(read=Read() as read):
                self._count_read(read)
            case ReadChecked(wrong=wrong, strict=strict):
                self._checked.labels("wrong" if wrong else "right").inc()
                self._strict.set(strict)
            case PushApplied(lead_seconds=float() as lead):
                self._lead.observe(lead)
            case SessionOpened(session_id=session_id, state=state):
                self._sessions.add(session_id, state)
            case SessionClosed(session_id=session_id):
                self._sessions.remove(session_id)
            case StreamUp():
                self._streams.inc()
            case StreamDown():
                self._streams.dec()

    def _count_read(self, read: Read) -> None:
        self._read_time.labels(read.source.value, read.status.value, read.decision.value).observe(
            read.elapsed_ms / 1000
        )
        self._hits.append(read.source is ReadSource.CACHE and read.status is not ReadStatus.DEGRADED)

    def _hit_ratio(self) -> float:
        hits = tuple(self._hits)
        return sum(hits) / len(hits) if hits else float("nan")


class _OpenSessions(Collector):
    """Looks at the open sessions when it is scraped, which happens on another thread."""

    def __init__(self) -> None:
        self._states: dict[str, Callable[[], SessionState]] = {}
        self._lock = threading.Lock()

    def add(self, session_id: str, state: Callable[[], SessionState]) -> None:
        with self._lock:
            self._states[session_id] = state

    def remove(self, session_id: str) -> None:
        with self._lock:
            self._states.pop(session_id, None)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            asked = tuple(self._states.values())
        states = [state() for state in asked]
        yield _gauge("sessions", "Sessions open now.", [len(states)])
        yield _gauge("held_items", "Items in the caches of all sessions.", [sum(s.items for s in states)])
        yield _gauge(
            "held_bytes", "What they took to send; vectors are kept at twice that.",
            [sum(s.wire_bytes for s in states)],
        )  # fmt: skip
        leases = [s.lease_seconds for s in states if s.items]
        yield _gauge(
            "lease_seconds", "Until the first cache may serve no more.", [min(leases)] if leases else []
        )

    def describe(self) -> Iterator[Metric]:
        """Their names, so that a registry that has them refuses a second set."""
        yield from _OpenSessions().collect()


def _gauge(name: str, documentation: str, values: Iterable[float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"precall_client_{name}", documentation)
    for value in values:
        family.add_metric([], value)
    return family
