"""The same mix of fates over real gRPC: every call ends once, rightly or in kind, and leaves nothing."""

import asyncio
import gc
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from harness import settings_for

import precall.engine.engine as engine_module
from precall.bench.answer_ledger import CANCELLED, CRASHED, EXPIRED, TOO_LONG, AnswerLedger
from precall.bench.crashing_encoder import CrashingEncoder
from precall.bench.mixed_load import MixedLoad, opened_transports
from precall.bench.mixed_workload import Fate, MixedRequest, Mixture, distinct_texts
from precall.bench.table_encoder import TableEncoder
from precall.engine.batching.batcher import Batcher
from precall.engine.batching.settings import BatchingSettings
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server
from precall.server.model import ServedModel

COUNT, PHASES, CALLERS = 2_000, 5, 128
TEXTS = distinct_texts(300, seed=5)


@pytest.fixture
def batchers(monkeypatch: pytest.MonkeyPatch) -> list[Batcher]:
    """Those that the server makes, to look into."""
    made: list[Batcher] = []

    class KeptBatcher(Batcher):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(engine_module, "Batcher", KeptBatcher)
    return made


async def test_a_mixed_load_over_grpc_ends_every_call_once_and_leaves_nothing(
    tmp_path: Path, batchers: list[Batcher], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="precall.engine")
    table = TableEncoder(TEXTS, pass_seconds=0.002)
    encoder = CrashingEncoder(table, every=250)
    ledger = AnswerLedger(COUNT, table.vectors)
    requests = Mixture(cancelled=0.03, expired=0.03).requests(COUNT, TEXTS, seed=21)
    batching = BatchingSettings(max_batch_tokens=64, max_waiting_tokens=100)
    settings = settings_for(tmp_path / "data", probe_seconds=5.0)
    blocks: list[int] = []
    async with running_server(
        settings, lambda _: ServedModel(encoder, "table", batching=batching)
    ) as endpoints:
        (batcher,) = batchers
        admin_key = read_admin_key(settings.data_dir)
        assert admin_key is not None
        async with opened_transports(endpoints.target, admin_key, ("acme", "rival")) as transports:
            load = MixedLoad(transports, ledger, callers=CALLERS)
            for _ in range(PHASES):
                table.open.clear()
                sending = asyncio.create_task(load.send(_next(requests, COUNT // PHASES)))
                try:
                    await until_refused(load)
                finally:
                    table.open.set()
                await sending
                await until_idle(batcher)
                batcher._queue.check_integrity()
                assert not batcher._answers
                gc.collect()
                blocks.append(sys.getallocatedblocks())
        await batcher.probe()
        assert await served_status(endpoints.target) == health_pb2.HealthCheckResponse.SERVING
    assert asyncio.all_tasks() == {asyncio.current_task()}

    assert (ledger.faults, ledger.unanswered) == ([], 0)
    assert set(ledger.outcomes) == {"right", CRASHED, TOO_LONG, CANCELLED, EXPIRED}
    assert sum(ledger.fates.values()) == COUNT and min(ledger.fates[fate] for fate in Fate) > 10
    assert encoder.crashes >= 6
    counts = batcher.counts
    assert PHASES <= load.refusals <= counts.refused
    assert counts.admitted == counts.done + counts.expired + counts.cancelled
    assert blocks[-1] - blocks[0] < 3_000, f"memory grows: {blocks}"


async def until_refused(load: MixedLoad) -> None:
    """Until more was sent than may wait, which is so once enough callers wait for a device that stands."""
    before = load.refusals
    async with asyncio.timeout(30):
        while load.refusals == before:  # noqa: ASYNC110 - the load tells nobody
            await asyncio.sleep(0.001)


async def until_idle(batcher: Batcher) -> None:
    """Until the device has nothing left, and whoever it was for has gone: a cancelled call ends on the server
    a little later than on its client.
    """
    async with asyncio.timeout(10):
        while not batcher._queue.is_idle or batcher._answers:  # noqa: ASYNC110 - the queue tells nobody
            await asyncio.sleep(0.001)


async def served_status(target: str) -> int:
    async with grpc.aio.insecure_channel(target) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        return int(answer.status)


def _next(requests: Iterator[MixedRequest], count: int) -> Iterator[MixedRequest]:
    for _ in range(count):
        yield next(requests)
