"""A read as it is reported to the server."""

from typing import Final

from precall.client import convert
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


def read_report(session_id: str, read: Read) -> anticipation_pb2.ReadReport:
    """Numbers and predictors only: neither the query nor a memory's text is in it."""
    return anticipation_pb2.ReadReport(
        session_id=session_id,
        source=_SOURCES[read.source],
        status=_STATUSES[read.status],
        elapsed=convert.seconds_to_wire(read.elapsed_ms / 1000),
        decision=read.decision.value,
        items=len(read.items),
        used_predictors=[item.predictor for item in read.items if read.source is ReadSource.CACHE],
        staleness=convert.seconds_to_wire(read.staleness_ms / 1000),
        encode=convert.seconds_to_wire(read.encode_ms / 1000),
    )
