"""A read as it is reported to the server."""

from typing import Final

from precall.client import convert
from precall.client.live_checks import Verdict
from precall.client.read import Read, ReadSource, ReadStatus
from precall.proto import anticipation_pb2

_SOURCES: Final = {
    ReadSource.CACHE: anticipation_pb2.READ_SOURCE_CACHE,
    ReadSource.SERVER: anticipation_pb2.READ_SOURCE_SERVER,
    ReadSource.BOTH: anticipation_pb2.READ_SOURCE_BOTH,
}
_STATUSES: Final = {
    ReadStatus.HIT: anticipation_pb2.READ_STATUS_HIT,
    ReadStatus.EMPTY: anticipation_pb2.READ_STATUS_EMPTY,
    ReadStatus.DEGRADED: anticipation_pb2.READ_STATUS_DEGRADED,
}


def read_report(session_id: str, read: Read, verdict: Verdict | None = None) -> anticipation_pb2.ReadReport:
    """Numbers, predictors and ids only: neither the query nor a memory's text is in it.

    ``verdict``: what the check of a served answer found, if there was one.
    """
    served = read.items if read.source is ReadSource.CACHE else ()
    report = anticipation_pb2.ReadReport(
        session_id=session_id,
        source=_SOURCES[read.source],
        status=_STATUSES[read.status],
        elapsed=convert.seconds_to_wire(read.elapsed_ms / 1000),
        decision=read.decision.value,
        items=len(read.items),
        used_predictors=[item.predictor for item in served],
        served_ids=[item.memory.id for item in served],
        staleness=convert.seconds_to_wire(read.staleness_ms / 1000),
        encode=convert.seconds_to_wire(read.encode_ms / 1000),
    )
    if verdict in (Verdict.RIGHT, Verdict.WRONG):
        report.checked_wrong = verdict is Verdict.WRONG
    return report
