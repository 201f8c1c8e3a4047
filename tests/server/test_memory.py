"""Writing, reading and destroying memories over real gRPC."""

import uuid
from datetime import UTC, datetime

import grpc
import numpy as np
import pytest
from failures import failure_of
from harness import ACME, DANA, Stage, remember, running_stage, scope, search
from wire_vectors import vector_of, vectors

from precall.proto import common_pb2, memory_pb2


async def test_what_is_written_is_read_back_whole(stage: Stage):
    caller = await stage.tenant("acme")
    memory = common_pb2.MemoryInput(
        id=str(uuid.uuid4()),
        scope=scope(DANA),
        kind=common_pb2.MEMORY_KIND_PREFERENCE,
        text="Dana likes boats",
        key="likes",
        confidence=0.3,
        importance=0.0,  # zero is a value
        event_time={"seconds": -1_000_000_000, "nanos": 123_456_000},
        said_time={"seconds": 1_700_000_000},
        valid_from={"seconds": 1},
        valid_until={"seconds": 4_000_000_000},
        expires_at={"seconds": 4_100_000_000},
        source=common_pb2.Source(conversation_id="call-1", turn_id="7", uri="tel:1"),
        questions=["What does Dana like?"],
        metadata={"lang": "en"},
        pinned=True,
    )
    written = await caller("MemoryService/WriteMemories", memories=[memory])
    assert written.version == 1
    assert written.written[0].state == common_pb2.MEMORY_STATE_CURRENT
    assert (written.written[0].usage.given, written.written[0].usage.used) == (3, 3)
    got = await caller("MemoryService/GetMemories", ids=[memory.id], scope=scope(DANA), min_version=1)
    (stored,) = got.memories
    for field in memory.DESCRIPTOR.fields:
        if field.name not in ("vector", "confidence"):
            assert getattr(stored, field.name) == getattr(memory, field.name), field.name
    assert stored.confidence == pytest.approx(0.3)
    assert stored.created_version == 1
    assert stored.created_at.seconds > 1_700_000_000


async def test_what_a_writer_leaves_open_is_filled_in(stage: Stage):
    caller = await stage.tenant("acme")
    before = datetime.now(UTC).timestamp()
    (memory_id,) = await remember(caller, DANA, "Dana likes boats")
    assert str(uuid.UUID(memory_id)) == memory_id
    (stored,) = (await caller("MemoryService/GetMemories", ids=[memory_id], scope=scope(DANA))).memories
    assert stored.kind == common_pb2.MEMORY_KIND_FACT
    assert (stored.confidence, stored.importance) == (1.0, 0.5)
    assert stored.event_time == stored.said_time
    assert stored.said_time.seconds >= int(before)
    assert not stored.HasField("source")
    assert not stored.HasField("valid_from")


async def test_event_time_defaults_to_said_time(stage: Stage):
    caller = await stage.tenant("acme")
    (memory_id,) = await remember(caller, DANA, "long ago", said_time={"seconds": 1000})
    (stored,) = (await caller("MemoryService/GetMemories", ids=[memory_id], scope=scope(DANA))).memories
    assert stored.event_time.seconds == 1000


async def test_a_retry_changes_nothing(stage: Stage):
    caller = await stage.tenant("acme")
    request = memory_pb2.WriteMemoriesRequest(
        memories=[common_pb2.MemoryInput(scope=scope(DANA), text="once")], request_id=str(uuid.uuid4())
    )
    first = await caller("MemoryService/WriteMemories", request)
    again = await caller("MemoryService/WriteMemories", request)
    assert (first.replayed, again.replayed) == (False, True)
    assert first.written[0].id == again.written[0].id
    assert again.written[0].usage.given == 1
    assert await search(caller, DANA, "once") == ["once"]


async def test_a_newer_statement_supersedes_and_the_history_stays(stage: Stage):
    caller = await stage.tenant("acme")
    (old,) = await remember(caller, DANA, "lives in Pune", key="home", event_time={"seconds": 100})
    reply = await caller(
        "MemoryService/WriteMemories",
        memories=[
            common_pb2.MemoryInput(
                scope=scope(DANA), text="lives in Goa", key="home", event_time={"seconds": 200}
            ),
        ],
    )
    assert list(reply.written[0].superseded_ids) == [old]
    late = await caller(
        "MemoryService/WriteMemories",
        memories=[
            common_pb2.MemoryInput(
                scope=scope(DANA), text="lived in Agra", key="home", event_time={"seconds": 50}
            ),
        ],
    )
    assert late.written[0].state == common_pb2.MEMORY_STATE_SUPERSEDED
    assert late.written[0].usage.given == 3
    assert await search(caller, DANA, "lives") == ["lives in Goa"]
    history = await caller("MemoryService/GetHistory", scope=scope(DANA), key="home")
    assert [m.text for m in history.memories] == ["lives in Goa", "lives in Pune", "lived in Agra"]


async def test_pages_of_one_rung(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *(f"note {n}" for n in range(5)))
    await remember(caller, ACME, "a policy")
    seen, token = [], ""
    while True:
        page = await caller("MemoryService/ListMemories", scope=scope(DANA), page_size=2, page_token=token)
        seen += [memory.text for memory in page.memories]
        token = page.next_page_token
        if not token:
            break
    assert seen == [f"note {n}" for n in range(5)]


async def test_delete_and_forget_destroy(stage: Stage):
    caller = await stage.tenant("acme")
    source = common_pb2.Source(conversation_id="call-1")
    first, second = await remember(caller, DANA, "one boat", "two boats")
    (third,) = await remember(caller, DANA, "three boats", source=source)
    unknown = str(uuid.uuid4())
    gone = await caller("MemoryService/DeleteMemories", ids=[first, unknown], scope=scope(DANA))
    assert (list(gone.deleted_ids), list(gone.missing_ids)) == ([first], [unknown])
    gone = await caller("MemoryService/ForgetSource", scope=scope(DANA), source=source)
    assert list(gone.deleted_ids) == [third]
    assert await search(caller, DANA, "boats") == ["two boats"]
    gone = await caller("MemoryService/ForgetScope", scope=scope(ACME))
    assert gone.deleted == 1
    left = await caller("MemoryService/GetMemories", ids=[first, second, third], scope=scope(DANA))
    assert list(left.missing_ids) == [first, second, third]


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"id": "12"}, "INVALID_INPUT", "id must be a UUID"),
        ({"kind": 77}, "INVALID_INPUT", "kind"),
        ({"importance": float("nan")}, "INVALID_INPUT", "importance"),
        ({"confidence": 1.5}, "INVALID_INPUT", "confidence"),
        ({"event_time": {"seconds": 10**12}}, "INVALID_INPUT", "event_time"),
        ({"event_time": {"nanos": -1}}, "INVALID_INPUT", "event_time"),
        ({"source": {"memory_ids": ["x"]}}, "INVALID_INPUT", "source.memory_ids"),
        ({"scope": None}, "INVALID_SCOPE", "empty"),
        ({"vector": vectors(np.ones(32))}, "INVALID_VECTOR", "length"),
        ({"vector": vectors(np.full(32, np.nan))}, "INVALID_VECTOR", "NaN"),
        ({"vector": vectors(np.zeros(32))}, "INVALID_VECTOR", "zero"),
        ({"vector": vectors(vector_of("a"), data=b"123")}, "INVALID_VECTOR", "bytes"),
        ({"vector": vectors(vector_of("a"), count=2)}, "INVALID_VECTOR", "rows"),
        ({"vector": vectors(vector_of("a"), dimension=16)}, "INVALID_VECTOR", "16"),
        ({"vector": vectors(vector_of("a"), format=77)}, "INVALID_INPUT", "format"),
        ({"vector": vectors(vector_of("a"), model_fingerprint="x")}, "MODEL_FINGERPRINT_MISMATCH", "x"),
        ({"vector": vectors(vector_of("a"), model_fingerprint="")}, "MODEL_FINGERPRINT_MISMATCH", "named"),
    ],
)
async def test_a_write_refuses(stage: Stage, changes, reason, words):
    caller = await stage.tenant("acme")
    fields = {"scope": scope(DANA), "text": "x"} | changes
    failure = await failure_of(
        caller("MemoryService/WriteMemories", memories=[common_pb2.MemoryInput(**fields)])
    )
    assert failure.reason == reason
    assert words in failure.message


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("MemoryService/WriteMemories", {}),
        ("MemoryService/WriteMemories", {"memories": [{"text": "x"}] * 1001}),
        ("MemoryService/WriteMemories", {"memories": [{"text": "x"}], "request_id": "1"}),
        ("MemoryService/GetMemories", {"scope": scope(DANA)}),
        ("MemoryService/GetMemories", {"scope": scope(DANA), "ids": ["nonsense"]}),
        ("MemoryService/GetMemories", {"scope": scope(DANA), "ids": [str(uuid.uuid4())] * 1001}),
        ("MemoryService/ListMemories", {"scope": scope(DANA), "page_size": 1001}),
        ("MemoryService/ListMemories", {"scope": scope(DANA), "page_token": "nonsense"}),
        ("MemoryService/GetHistory", {"scope": scope(DANA)}),
        ("MemoryService/DeleteMemories", {"scope": scope(DANA), "ids": []}),
        ("MemoryService/ForgetSource", {"scope": scope(DANA)}),
        ("RetrievalService/Search", {"scope": scope(DANA)}),
        ("RetrievalService/Search", {"scope": scope(DANA), "query": " \n"}),
        ("RetrievalService/Search", {"scope": scope(DANA), "query": "x" * 20_001}),
        ("RetrievalService/Search", {"scope": scope(DANA), "query": "x", "limit": 1001}),
        ("RetrievalService/Search", {"scope": scope(DANA), "query": "x", "mode": 77}),
        (
            "RetrievalService/Search",
            {"scope": scope(DANA), "query": "x", "weights": {"relevance": float("nan")}},
        ),
        ("RetrievalService/Search", {"scope": scope(DANA), "query": "x", "weights": {"recency": 1.5}}),
        ("RetrievalService/Search", {"scope": scope(DANA), "query": "x", "ranked_at": {"nanos": -5}}),
    ],
)
async def test_bad_input_is_told_as_such(stage: Stage, method, fields):
    caller = await stage.tenant("acme")
    failure = await failure_of(caller(method, **fields))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")


async def test_a_full_batch_goes_through(tmp_path):
    async with running_stage(tmp_path / "data", max_batch=50) as stage:
        caller = await stage.tenant("acme")
        assert len(await remember(caller, DANA, *(f"note {n}" for n in range(50)))) == 50
        failure = await failure_of(remember(caller, DANA, *(f"note {n}" for n in range(51))))
        assert "at most 50" in failure.message
