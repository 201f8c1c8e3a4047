"""Looking at what a failed call says."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status


@dataclass(frozen=True)
class Failure:
    code: grpc.StatusCode
    message: str
    reason: str
    trailing: dict[str, str | bytes]
    info: ErrorInfo = field(default_factory=ErrorInfo)
    retry: RetryInfo | None = None


async def failure_of(call: Awaitable[Any]) -> Failure:
    """The failure of a call that must fail, its details unpacked and checked against its status."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return unpacked(caught.value)


def unpacked(error: grpc.aio.AioRpcError) -> Failure:
    trailing = dict(error.trailing_metadata() or ())
    status = Status.FromString(trailing.get("grpc-status-details-bin", b""))
    info, retry = ErrorInfo(), None
    for detail in status.details:
        if detail.Is(ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(RetryInfo.DESCRIPTOR):
            retry = RetryInfo()
            detail.Unpack(retry)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    assert info.domain == "precall"
    assert info.reason == trailing["precall-reason"]
    return Failure(error.code(), error.details() or "", info.reason, trailing, info, retry)
