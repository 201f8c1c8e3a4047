"""What clients report of their reads, on its way into the metrics."""

import math
from typing import Final

from google.protobuf.duration_pb2 import Duration

from precall.engine.anticipation.predictor_set import NAMES
from precall.engine.anticipation.session import WHOLE_RUNG, WRITTEN
from precall.proto import anticipation_pb2
from precall.server.mapping.values import seconds_of
from precall.server.metrics import ServerMetrics

OTHER: Final = "other"
DECISIONS: Final = frozenset({"complete", "sure", "borderline", "miss", "stale", "behind", "unencoded"})
PREDICTORS: Final = NAMES | {WHOLE_RUNG, WRITTEN}

_SOURCES: Final = {
    anticipation_pb2.READ_SOURCE_CACHE: "cache",
    anticipation_pb2.READ_SOURCE_SERVER: "server",
    anticipation_pb2.READ_SOURCE_BOTH: "both",
}
_STATUSES: Final = {
    anticipation_pb2.READ_STATUS_HIT: "hit",
    anticipation_pb2.READ_STATUS_EMPTY: "empty",
    anticipation_pb2.READ_STATUS_DEGRADED: "degraded",
}


class ReadReports:
    """Counts reports. Labels come from closed sets, so that no client can grow the metrics without end."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics

    def take_read(self, report: anticipation_pb2.ReadReport) -> None:
        """A report that makes no sense in a part is counted for the rest."""
        metrics = self._metrics
        elapsed = _sensible(report.elapsed)
        if elapsed is not None:
            metrics.read_time.labels(
                _SOURCES.get(report.source, OTHER),
                _STATUSES.get(report.status, OTHER),
                report.decision if report.decision in DECISIONS else OTHER,
            ).observe(elapsed)
        if report.HasField("encode") and (encode := _sensible(report.encode)) is not None:
            metrics.read_encode_time.observe(encode)
        if report.HasField("staleness") and (staleness := _sensible(report.staleness)) is not None:
            metrics.staleness.observe(staleness)
        for predictor in report.used_predictors:
            metrics.used_items.labels(predictor if predictor in PREDICTORS else OTHER).inc()
        if report.HasField("checked_wrong"):
            metrics.checked_reads.labels("wrong" if report.checked_wrong else "right").inc()

    def take_push(self, report: anticipation_pb2.PushReport) -> None:
        """The lead of one push."""
        lead = _sensible(report.lead)
        if lead is not None:
            self._metrics.lead.observe(lead)


def _sensible(span: Duration) -> float | None:
    """Seconds, or None for a span that no read can take: a day and more, or a negative one."""
    seconds = seconds_of(span)
    return seconds if math.isfinite(seconds) and 0 <= seconds < 86_400 else None
