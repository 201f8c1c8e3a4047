"""Pings through minutes of silence, told in seconds: the same settings, thirty times as fast."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from harness import Stage, running_stage

from precall.client import ClientOptions
from precall.client.transport import _channel_settings
from precall.proto import anticipation_pb2
from precall.server import app

FASTER = ClientOptions().keepalive_time_ms // 1_000
"""gRPC pings once a second at most."""

SILENCE_SECONDS = 6.0
"""Stands for three minutes: the server hangs up at the fourth ping that comes too soon."""


@asynccontextmanager
async def permitting(ping_ms: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """A stage whose server takes pings ``ping_ms`` apart and no sooner, and says nothing by itself."""
    monkeypatch.setattr(app, "CLIENT_PING_MILLISECONDS", ping_ms)
    async with running_stage(folder, heartbeat_seconds=40.0, lease_seconds=120.0) as stage:
        yield stage


async def end_of_silence(stage: Stage) -> str:
    """How a stream ends on which nobody says anything and the client pings as ours does: ``silence``, or what
    gRPC says.
    """
    caller = await stage.tenant("acme")
    options = ClientOptions(keepalive_time_ms=ClientOptions().keepalive_time_ms // FASTER)
    async with grpc.aio.insecure_channel(
        stage.endpoints.target, options=_channel_settings(options)
    ) as channel:
        call = channel.unary_stream(
            "/precall.v1.AnticipationService/Watch",
            anticipation_pb2.WatchRequest.SerializeToString,
            anticipation_pb2.WatchEvent.FromString,
        )(
            anticipation_pb2.WatchRequest(stream_id=str(uuid.uuid4())),
            metadata=(("authorization", f"Bearer {caller.token}"),),
        )
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                while await call.read() is not grpc.aio.EOF:
                    pass
        except TimeoutError:
            return "silence"
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        return "ended"


async def test_our_pings_outlast_a_silence_and_more_frequent_ones_would_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    permitted_ms = app.CLIENT_PING_MILLISECONDS // FASTER
    async with (
        permitting(permitted_ms, tmp_path / "ours", monkeypatch) as ours,
        permitting(permitted_ms * 10, tmp_path / "strict", monkeypatch) as strict,
    ):
        ends = await asyncio.gather(end_of_silence(ours), end_of_silence(strict))
    assert ends[0] == "silence"
    assert "too_many_pings" in ends[1].lower().replace(" ", "_")
