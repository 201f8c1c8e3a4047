"""The benchmark's own arithmetic, and the whole of it against a server of a model without weights."""

import asyncio
import json
import math
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from typer.testing import CliRunner

from precall.bench.embed import EmbedRun, Part, _needs_server
from precall.bench.embed_caller import Answer, EmbedCaller, embed_request, is_typed
from precall.bench.embed_classes import FloodRequests, ResidentMemory
from precall.bench.embed_load import Arrival, offer, percentile_ms, steady
from precall.bench.embed_peers import InfinityServer, PeerFailed
from precall.bench.embed_report import EmbedReport, Finding, Target
from precall.bench.embed_texts import load_texts
from precall.cli.main import app
from precall.client import AsyncClient, ClientOptions, LocalEncoding
from precall.engine.batching.settings import BatchingSettings
from precall.engine.batching.work import WorkClass
from precall.engine.encoding.encoder import TextRole
from precall.engine.errors import Overloaded
from precall.proto import embedding_pb2
from precall.server.admin_key import read_admin_key
from precall.server.app import running_server
from precall.server.errors import abort
from precall.server.model import ServedModel
from precall.server.settings import ServerSettings
from tests.fakes.encoder import FakeEncoder

OK = grpc.StatusCode.OK


def answer(milliseconds: float, code: grpc.StatusCode = OK) -> Answer:
    return Answer(code, milliseconds / 1e3, 1, is_typed=True)


def test_a_bound_is_held_from_its_own_side() -> None:
    assert Target(1.3, at_least=True).is_met(1.3) and not Target(1.3, at_least=True).is_met(1.29)
    assert Target(1.0, at_least=False).is_met(1.0) and not Target(1.0, at_least=False).is_met(1.01)
    assert not Target(1.3, at_least=True).is_met(math.nan)
    assert not Target(1.0, at_least=False).is_met(math.nan)


def test_a_ratio_is_judged_before_the_value_it_is_of() -> None:
    missed = Finding("a", "b", "rate", 100.0, "texts/s", "peer", 1.2, Target(1.3, at_least=True))
    assert missed.is_met is False
    assert Finding("a", "b", "p50", 100.0, "ms").is_met is None
    assert EmbedReport([missed]).missed == [missed]


def test_a_report_names_what_was_missed_and_what_was_left_out(tmp_path: Path) -> None:
    met = Finding("a", "b", "p50", 0.5, "ms", target=Target(1.0, at_least=False))
    path = tmp_path / "out" / "embed.json"
    report = EmbedReport([met], ["the peer"])
    report.write(path, {"cores": "2"})
    document = json.loads(path.read_text())
    assert document["findings"][0]["met"] is True and document["left_out"] == ["the peer"]
    assert report.measurements()[0].benchmark == "embed"
    assert report.table().row_count == 1


def test_time_counts_from_when_a_call_was_due(
    run_on_virtual_clock: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    """A server that stands still for 10 s keeps nobody from coming, and everybody's wait is counted."""

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        stalled_until = 10.0

        async def call(arrival: Arrival, due: float) -> Answer:
            begun.append(clock())
            await asyncio.sleep(max(stalled_until - clock(), 0.0))
            return Answer(OK, clock() - due, 1, is_typed=True)

        begun: list[float] = []
        begin = clock()
        stalled_until += begin
        answers = await offer(steady([b""], a_second=1.0, seconds=20.0), call, clock=clock)
        assert [round(moment - begin, 6) for moment in begun] == [float(second) for second in range(20)]
        assert [round(each.seconds, 6) for each in answers] == [
            max(10.0 - second, 0.0) for second in range(20)
        ]

    run_on_virtual_clock(scenario())


def test_percentiles_are_of_what_was_served() -> None:
    answers = [answer(10.0), answer(20.0), answer(30.0), answer(1e6, grpc.StatusCode.RESOURCE_EXHAUSTED)]
    assert percentile_ms(answers, 50) == pytest.approx(20.0)
    assert math.isnan(percentile_ms([answer(1.0, grpc.StatusCode.UNAVAILABLE)], 50))


def test_no_text_of_a_flood_is_asked_for_twice() -> None:
    requests = FloodRequests(["a", "b"])
    texts = [
        text
        for body in [*requests.make(3), *requests.make(2)]
        for text in embedding_pb2.EmbedRequest.FromString(body).texts
    ]
    assert len(texts) == len(set(texts)) == 5 * 32


async def test_memory_is_sampled_until_it_is_left() -> None:
    async with ResidentMemory(os.getpid()) as memory:
        while not memory.samples:  # noqa: ASYNC110 - sampling is all there is to wait for
            await asyncio.sleep(0)
    assert memory.samples[0] > 2**20


def test_without_data_texts_are_made_up_and_the_same_each_time(tmp_path: Path) -> None:
    texts = load_texts(tmp_path, turns=20, abstracts=5)
    assert (len(texts.turns), len(texts.abstracts)) == (20, 5)
    assert "made-up" in texts.origin
    assert texts == load_texts(tmp_path, turns=20, abstracts=5)


def test_a_part_alone_starts_no_server_that_it_does_not_need(tmp_path: Path) -> None:
    assert not _needs_server(EmbedRun(tmp_path, (Part.THROUGHPUT,)))
    assert _needs_server(EmbedRun(tmp_path, (Part.THROUGHPUT,), peer_python=tmp_path))
    assert not _needs_server(EmbedRun(tmp_path, (Part.TRACE,)))  # whose trace is not there
    assert _needs_server(EmbedRun(tmp_path, (Part.LONE,)))


def test_a_peer_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with (
        pytest.raises(PeerFailed, match=r"make \.venv-peers"),
        InfinityServer(tmp_path / "python", tmp_path, tmp_path),
    ):
        pass


def test_an_unknown_part_is_a_usage_error() -> None:
    result = CliRunner().invoke(app, ["bench", "embed", "--data", ".", "--only", "speed"])
    assert result.exit_code == 2
    assert "throughput, lone, trace, classes" in " ".join(result.output.replace("│", " ").split())


async def test_a_refusal_is_seen_as_one_and_as_typed(tmp_path: Path) -> None:
    settings = ServerSettings.load(
        {"data_dir": tmp_path, "port": 0, "metrics_port": 0, "drain_seconds": 0.2}, environment={}
    )
    model = ServedModel(FakeEncoder(), "fake", batching=BatchingSettings(max_waiting_tokens=8))
    async with running_server(settings, lambda _: model) as endpoints:
        key = read_admin_key(tmp_path)
        assert key is not None
        async with EmbedCaller(endpoints.target, await _tenant_key(endpoints.target, key)) as caller:
            small = embed_request(["one"], TextRole.QUERY, WorkClass.CONVERSATION).SerializeToString()
            served = await caller.answer(small, 1, due=0.0, timeout=10.0)
            assert (served.code, served.is_typed) == (OK, True)
            never = embed_request(["word " * 9], TextRole.QUERY, WorkClass.CONVERSATION).SerializeToString()
            wrong = await caller.answer(never, 1, due=0.0, timeout=10.0)
            assert (wrong.code, wrong.is_typed) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        async with EmbedCaller(endpoints.target, "no key") as stranger:
            refused = await stranger.answer(small, 1, due=0.0, timeout=10.0)
            assert (refused.code, refused.is_typed) == (grpc.StatusCode.UNAUTHENTICATED, True)


@pytest.mark.parametrize("missing", ["", "grpc-retry-pushback-ms", "grpc-status-details-bin"])
async def test_a_refusal_that_does_not_say_when_to_come_back_is_not_typed(missing: str) -> None:
    class Context:
        async def abort(self, code: grpc.StatusCode, message: str, trailing: Any) -> None:
            kept = [(key, value) for key, value in trailing if key != missing]
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*kept), message)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await abort(Context(), Overloaded("full", retry_after_seconds=0.5))  # type: ignore[arg-type]
    assert is_typed(caught.value) == (missing == "")


async def _tenant_key(target: str, admin_key: str) -> str:
    options = ClientOptions(local_encoding=LocalEncoding.OFF)
    async with AsyncClient(target, api_key=admin_key, options=options) as client:
        await client.admin.create_tenant("acme")
        return (await client.admin.create_key("acme")).secret
