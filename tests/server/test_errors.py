"""How failures travel: codes, reasons, details, retries; and what no failure tells."""

import asyncio
from datetime import UTC, datetime

import grpc
import pytest
from failures import failure_of
from grpc._cython import cygrpc
from harness import DANA, Stage, remember, running_stage, scope
from prometheus_client import generate_latest

from precall.engine import errors
from precall.engine.errors import Overloaded, PrecallError
from precall.proto import anticipation_pb2, common_pb2, embedding_pb2, retrieval_pb2
from precall.server.errors import MAX_MESSAGE_CHARACTERS, STATUS_CODES, status_code
from precall.server.interceptor import Gate
from precall.server.keys import Key, Role
from precall.server.metrics import ServerMetrics

QUERY = embedding_pb2.TEXT_ROLE_QUERY


def every_error_class() -> list[type[PrecallError]]:
    found = [PrecallError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return found


@pytest.mark.parametrize("kind", every_error_class())
def test_every_error_has_a_code(kind):
    error = kind("said", retry_after_seconds=1) if kind is Overloaded else kind("said")
    code = status_code(error)
    assert code is not grpc.StatusCode.OK
    if kind not in (PrecallError, errors.NumericsError):
        assert code is not grpc.StatusCode.INTERNAL, f"{kind.__name__} needs a place in the table"


def test_only_what_a_retry_can_mend_is_unavailable():
    unavailable = {kind for kind, code in STATUS_CODES.items() if code is grpc.StatusCode.UNAVAILABLE}
    assert unavailable == {errors.ModelUnavailable, errors.ModelChanged, errors.Draining}


async def test_an_error_carries_its_reason_twice_and_its_facts(stage: Stage):
    dana = await stage.tenant("acme")
    failure = await failure_of(dana("RetrievalService/Search", scope=scope(DANA), query="x", min_version=7))
    assert (failure.code, failure.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION_NOT_REACHED")
    assert failure.info.metadata["version"] == "0"
    assert failure.retry is None


async def test_overload_says_when_to_come_again(tmp_path, monkeypatch):
    async with running_stage(tmp_path / "data") as stage:
        caller = await stage.tenant("acme")

        async def refuse(*_, **__):
            raise Overloaded("too much is waiting", retry_after_seconds=0.25)

        monkeypatch.setattr("precall.engine.batching.batcher.Batcher.embed", refuse)
        failure = await failure_of(caller("EmbeddingService/Embed", texts=["a"], role=QUERY))
        monkeypatch.undo()
    assert (failure.code, failure.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert failure.trailing["grpc-retry-pushback-ms"] == "250"
    assert failure.retry is not None
    assert failure.retry.retry_delay.ToMilliseconds() == 250


async def test_calls_over_the_limit_are_refused_with_details(tmp_path, monkeypatch):
    async with running_stage(tmp_path / "data", max_concurrent_rpcs=1) as stage:
        caller = await stage.tenant("acme")
        entered, leave = asyncio.Event(), asyncio.Event()

        async def wait(*_, **__):
            entered.set()
            await leave.wait()
            return []

        monkeypatch.setattr("precall.engine.batching.batcher.Batcher.embed", wait)
        first = asyncio.ensure_future(caller("EmbeddingService/Embed", texts=["a"], role=QUERY))
        await entered.wait()
        failure = await failure_of(caller("EmbeddingService/GetModel"))
        assert failure.reason == "OVERLOADED"
        assert "grpc-retry-pushback-ms" in failure.trailing
        leave.set()
        await asyncio.gather(first, return_exceptions=True)
        monkeypatch.undo()
        await caller("EmbeddingService/GetModel")  # the place is free again


async def test_a_flood_of_bulk_work_leaves_places_for_conversations_and_one_of_a_tenant_for_others(
    tmp_path, monkeypatch
):
    async with running_stage(tmp_path / "data", max_concurrent_rpcs=4) as stage:
        acme, brio = await stage.tenant("acme"), await stage.tenant("brio")
        entered, leave = asyncio.Semaphore(0), asyncio.Event()

        async def wait(*_, **__):
            entered.release()
            await leave.wait()
            return []

        monkeypatch.setattr("precall.engine.batching.batcher.Batcher.embed", wait)
        text = {"texts": ["a"], "role": QUERY}
        flood = [asyncio.ensure_future(acme("EmbeddingService/Embed", **text)) for _ in range(2)]
        for _ in flood:
            await entered.acquire()
        failure = await failure_of(acme("EmbeddingService/Embed", **text))
        assert (failure.reason, failure.retry is not None) == ("OVERLOADED", True)
        assert "as many as a tenant may" in failure.message

        flood.append(asyncio.ensure_future(brio("EmbeddingService/Embed", **text)))
        async with asyncio.timeout(10):
            await entered.acquire()
        failure = await failure_of(brio("EmbeddingService/Embed", **text))
        assert failure.reason == "OVERLOADED"
        assert "kept for conversations" in failure.message and failure.retry is not None
        await brio("EmbeddingService/GetModel")
        leave.set()
        await asyncio.gather(*flood, return_exceptions=True)
        monkeypatch.undo()
        await acme("EmbeddingService/Embed", **text)


async def test_more_calls_than_grpc_keeps_by_itself_are_all_answered_in_kind(tmp_path):
    """gRPC's own limit of 1,000 waiting calls ends those over it as CANCELLED, without a reason."""
    async with running_stage(tmp_path / "data", max_concurrent_rpcs=2) as stage:
        caller = await stage.tenant("acme")
        answers = await asyncio.gather(
            *(caller("EmbeddingService/GetModel") for _ in range(3_000)), return_exceptions=True
        )
        failed = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
        assert all(dict(each.trailing_metadata()).get("precall-reason") for each in failed)


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("can't start new thread")])
async def test_a_server_out_of_memory_or_threads_says_come_again(stage: Stage, monkeypatch, fault):
    caller = await stage.tenant("acme")

    async def fail(*_, **__):
        raise fault

    monkeypatch.setattr("precall.engine.batching.batcher.Batcher.embed", fail)
    failure = await failure_of(caller("EmbeddingService/Embed", texts=["a"], role=QUERY))
    assert (failure.code, failure.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert failure.retry is not None


async def test_a_fault_of_ours_tells_an_incident_and_nothing_else(stage: Stage, monkeypatch, capfd):
    caller = await stage.tenant("acme")

    async def fail(*_, **__):
        raise RuntimeError("secret internals")

    monkeypatch.setattr("precall.engine.tenant.Tenant.search", fail)
    failure = await failure_of(caller("RetrievalService/Search", scope=scope(DANA), query="x"))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret internals" not in repr(failure)
    incident = failure.info.metadata["incident"]
    assert incident in failure.message
    logged = "".join(capfd.readouterr())
    assert incident in logged
    assert "secret internals" in logged


async def test_a_long_message_still_arrives_whole_enough(stage: Stage):
    caller = await stage.tenant("acme")
    failure = await failure_of(caller("RetrievalService/Search", scope=scope({"l" * 20_000: "v"}), query="x"))
    assert failure.reason == "INVALID_SCOPE"
    assert len(failure.message) == MAX_MESSAGE_CHARACTERS


async def test_a_batch_names_the_position_of_what_is_wrong(stage: Stage):
    caller = await stage.tenant("acme")
    good = common_pb2.MemoryInput(scope=scope(DANA), text="fine")
    wrong = {
        "INVALID_INPUT": common_pb2.MemoryInput(scope=scope(DANA), text=" "),
        "INVALID_SCOPE": common_pb2.MemoryInput(scope=scope({"user": "dana"}), text="x"),
        "TEXT_TOO_LONG": common_pb2.MemoryInput(scope=scope(DANA), text="word " * 65),
    }
    for reason, item in wrong.items():
        failure = await failure_of(caller("MemoryService/WriteMemories", memories=[good, good, item]))
        assert failure.reason == reason
        assert failure.info.metadata["position"] == "2"
        assert "2" in failure.message
    listed = await caller("MemoryService/ListMemories", scope=scope(DANA))
    assert not listed.memories  # nothing half-written


NOT_YET = [
    ("RetrievalService/Search", {"mode": retrieval_pb2.SEARCH_MODE_ACCURATE}),
    ("EmbeddingService/Embed", {"texts": ["a"], "role": QUERY, "dimension": 16}),
    ("EmbeddingService/Embed", {"texts": ["a"], "role": QUERY, "instruction": "Find"}),
    ("EmbeddingService/Embed", {"texts": ["a"], "role": QUERY, "format": common_pb2.VECTOR_FORMAT_INT8}),
    ("EmbeddingService/Rerank", {"query": "q", "documents": ["d"]}),
    ("EmbeddingService/GetClientEncoder", {}),  # the fake model exports nothing
    (
        "AnticipationService/OpenSession",
        {
            "stream_id": "00000000-0000-4000-8000-000000000000",
            "session_id": "00000000-0000-4000-8000-000000000000",
            "vector_format": common_pb2.VECTOR_FORMAT_INT8,
        },
    ),
]


async def test_what_the_server_does_not_do_yet_says_so(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "something")
    for method, fields in NOT_YET:
        if method == "RetrievalService/Search":
            fields = fields | {"scope": scope(DANA), "query": "something"}
        failure = await failure_of(caller(method, **fields))
        assert (failure.code, failure.reason) == (grpc.StatusCode.UNIMPLEMENTED, "NOT_SUPPORTED"), (
            method,
            fields,
        )


async def test_a_deadline_that_passes_is_told_as_one(stage: Stage):
    caller = await stage.tenant("acme")
    call = stage.channel.unary_unary(
        "/precall.v1.EmbeddingService/GetModel",
        embedding_pb2.GetModelRequest.SerializeToString,
        embedding_pb2.ModelCard.FromString,
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(
            embedding_pb2.GetModelRequest(),
            metadata=(("authorization", f"Bearer {caller.token}"),),
            timeout=-1,
        )
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_body_that_is_no_message_is_the_callers_fault(stage: Stage, caplog):
    caller = await stage.tenant("acme")
    metadata = (("authorization", f"Bearer {caller.token}"),)
    unary = stage.channel.unary_unary("/precall.v1.MemoryService/WriteMemories")
    stream = stage.channel.unary_stream("/precall.v1.AnticipationService/Watch")
    for call in (unary(b"\xff\xff", metadata=metadata), stream(b"\xff\xff", metadata=metadata).read()):
        failure = await failure_of(call)
        assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert not caplog.records


async def test_a_peer_that_hangs_up_in_the_middle_of_a_stream_is_no_fault_of_ours():
    """gRPC raises an error of its own from a write to a peer that has gone, and would log it as ours."""

    class GoneContext:
        def invocation_metadata(self):
            return (("authorization", f"Bearer {keys.token}"),)

        def time_remaining(self):
            return None

        async def write(self, reply):
            raise cygrpc.ExecuteBatchError('Failed "execute_batch"')

    class Keys:
        token = "k"

        def find(self, token):
            return Key("id", "acme", Role.READ, "", datetime.now(UTC))

    closed = []

    async def replies(request, context):
        try:
            yield b"first"
            yield b"second"
        finally:
            closed.append(request)

    keys, metrics = Keys(), ServerMetrics()
    gate = Gate(keys, metrics, max_concurrent=1)  # type: ignore[arg-type]
    guarded = gate._stream("EmbeddingService/GetClientEncoder", replies, bytes)
    with pytest.raises(asyncio.CancelledError):
        await guarded(b"request", GoneContext())  # type: ignore[arg-type]
    assert closed == [b"request"], "what the stream held is let go of"
    counted = generate_latest(metrics.registry).decode()
    assert 'code="CANCELLED",method="EmbeddingService/GetClientEncoder"' in counted


async def test_positions_are_told_in_one_word(stage: Stage):
    caller = await stage.tenant("acme")
    good = common_pb2.MemoryInput(scope=scope(DANA), text="fine")
    same = "00000000-0000-4000-8000-000000000001"
    twin = common_pb2.MemoryInput(id=same, scope=scope(DANA), text="fine")
    orphan = common_pb2.MemoryInput(
        scope=scope(DANA),
        text="x",
        source=common_pb2.Source(memory_ids=["00000000-0000-4000-8000-000000000009"]),
    )
    await remember(caller, DANA, "taken", id=same)
    blank = common_pb2.MemoryInput(scope=scope(DANA), text=" ")
    for batch in ([good, blank], [twin, twin], [good, twin], [good, orphan]):
        failure = await failure_of(caller("MemoryService/WriteMemories", memories=batch))
        assert failure.message.startswith("item 1: "), failure.message
        assert failure.info.metadata["position"] == "1"


OVER_LIMITS = {
    "questions": {"questions": ["ok", "x" * 900_000]},
    "source.uri": {"source": common_pb2.Source(uri="x" * 900_000)},
    "source.conversation_id": {"source": common_pb2.Source(conversation_id="x" * 900_000)},
    "source.turn_id": {"source": common_pb2.Source(turn_id="x" * 900_000)},
    "key": {"key": "x" * 900_000},
    "text": {"text": "x" * 900_000},
}


@pytest.mark.parametrize("field", OVER_LIMITS)
async def test_no_field_can_stall_the_server(stage: Stage, field):
    caller = await stage.tenant("acme")
    item = common_pb2.MemoryInput(**({"scope": scope(DANA), "text": "fine"} | OVER_LIMITS[field]))
    failure = await failure_of(caller("MemoryService/WriteMemories", memories=[item]))
    assert failure.reason == "INVALID_INPUT"
    assert failure.message.startswith(f"item 0: {field}")
    assert "at most" in failure.message


async def test_a_read_report_names_so_many_predictors(stage: Stage):
    caller = await stage.tenant("acme")
    read = anticipation_pb2.ReadReport(used_predictors=["x"] * 100_001)
    failure = await failure_of(caller("AnticipationService/ReportReads", reads=[read]))
    assert failure.reason == "INVALID_INPUT"
