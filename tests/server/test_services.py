"""Every service over real gRPC, with a model that is quick."""

import uuid
from datetime import UTC, datetime

import grpc
import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import ACME, DANA, ELI, Stage, remember, running_stage, scope, search

from precall.engine.encoding.encoder import TextRole
from precall.proto import admin_pb2, common_pb2, embedding_pb2, memory_pb2, retrieval_pb2
from precall.scoring.vectors import FLOAT16, FLOAT32, from_bytes

QUERY, DOCUMENT = embedding_pb2.TEXT_ROLE_QUERY, embedding_pb2.TEXT_ROLE_DOCUMENT


def vector_of(text: str) -> np.ndarray:
    encoder = FakeEncoder()
    return encoder.encode([encoder.tokenize(text, TextRole.QUERY, truncate=False)]).vectors[0]


def vectors(row: np.ndarray, **changes) -> common_pb2.Vectors:
    fields = {
        "data": row.astype("<f4").tobytes(),
        "count": 1,
        "dimension": len(row),
        "format": common_pb2.VECTOR_FORMAT_FLOAT32,
        "model_fingerprint": FAKE_CARD.fingerprint,
    }
    return common_pb2.Vectors(**(fields | changes))


# Embedding


async def test_embed_answers_a_row_a_text_and_names_what_failed(stage: Stage):
    caller = await stage.tenant("acme")
    texts = ["a cat", "", "word " * 65, "a cat"]
    reply = await caller("EmbeddingService/Embed", texts=texts, role=QUERY)
    assert (reply.vectors.count, reply.vectors.dimension) == (4, 32)
    assert reply.vectors.format == common_pb2.VECTOR_FORMAT_FLOAT16
    assert reply.vectors.model_fingerprint == FAKE_CARD.fingerprint
    rows = from_bytes(reply.vectors.data, count=4, dimension=32, dtype=FLOAT16)
    assert np.allclose(rows[0].astype(np.float32), vector_of("a cat"), atol=1e-3)
    assert (rows[0] == rows[3]).all()
    assert not rows[1].any()
    assert not rows[2].any()
    assert [(error.position, error.reason) for error in reply.errors] == [
        (1, "INVALID_INPUT"),
        (2, "TEXT_TOO_LONG"),
    ]
    assert (reply.usage[0].given, reply.usage[0].used, reply.usage[0].truncated) == (2, 2, False)
    assert {"tokenize", "queue", "device", "total"} == {timing.stage for timing in reply.timings}


async def test_embed_truncates_only_when_asked_and_says_so(stage: Stage):
    caller = await stage.tenant("acme")
    reply = await caller(
        "EmbeddingService/Embed",
        texts=["word " * 65],
        role=DOCUMENT,
        truncate=True,
        format=common_pb2.VECTOR_FORMAT_FLOAT32,
    )
    assert (reply.usage[0].given, reply.usage[0].used, reply.usage[0].truncated) == (65, 64, True)
    (row,) = from_bytes(reply.vectors.data, count=1, dimension=32, dtype=FLOAT32)
    assert abs(np.linalg.norm(row) - 1) < 1e-3


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"texts": []}, "INVALID_INPUT"),
        ({"texts": ["a"], "role": embedding_pb2.TEXT_ROLE_UNSPECIFIED}, "INVALID_INPUT"),
        ({"texts": ["a"], "role": 77}, "INVALID_INPUT"),
        ({"texts": ["a"], "format": 77}, "INVALID_INPUT"),
        ({"texts": ["a"], "work_class": 77}, "INVALID_INPUT"),
        ({"texts": ["a"] * 1001}, "INVALID_INPUT"),
        ({"texts": ["a"], "model_fingerprint": "other"}, "MODEL_FINGERPRINT_MISMATCH"),
    ],
)
async def test_embed_refuses(stage: Stage, fields, code):
    caller = await stage.tenant("acme")
    assert (await failure_of(caller("EmbeddingService/Embed", **({"role": QUERY} | fields)))).reason == code


async def test_the_card_is_the_encoders(stage: Stage):
    card = await stage.admin("EmbeddingService/GetModel")
    assert card.fingerprint == FAKE_CARD.fingerprint
    assert (card.name, card.dimension, card.max_tokens) == ("fake-hash", 32, 64)
    assert (card.pooling, card.runtime) == (embedding_pb2.POOLING_MEAN, "fake")


# Memories


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


# Retrieval


async def test_search_tells_scores_rungs_legs_and_times(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts", "The kettle is broken")
    await remember(caller, ACME, "Acme serves peanuts on flights")
    await remember(caller, ELI, "Eli is allergic to peanuts")
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query="allergic to peanuts", limit=2)
    assert [r.memory.text for r in reply.results] == [
        "Dana is allergic to peanuts",
        "Acme serves peanuts on flights",
    ]
    assert [r.rung for r in reply.results] == ["user", "customer"]
    first = reply.results[0]
    assert set(first.legs) == {"dense", "keyword"}
    parts = first.score
    expected = 0.7 * parts.relevance + 0.2 * parts.importance + 0.1 * parts.recency
    assert parts.total == pytest.approx(expected, abs=1e-5)
    assert (reply.version, reply.visible) == (3, 3)
    assert reply.model_fingerprint == FAKE_CARD.fingerprint
    assert reply.usage.given == 3
    assert {t.stage for t in reply.timings} == {"queue", "tokenize", "device", "search", "total"}


async def test_search_by_vector_embeds_nothing_and_ranks_alike(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana is allergic to peanuts", "The kettle is broken", "Dana likes boats")
    query = "allergic peanuts"
    at = {"seconds": 2_000_000_000}
    by_text = await caller("RetrievalService/Search", scope=scope(DANA), query=query, ranked_at=at)
    passes = stage.encoder.forward_passes
    by_vector = await caller(
        "RetrievalService/Search",
        scope=scope(DANA),
        query=query,
        ranked_at=at,
        query_vector=vectors(vector_of(query)),
    )
    assert stage.encoder.forward_passes - passes <= 1  # a readiness probe may have come between
    assert [r.memory.id for r in by_text.results] == [r.memory.id for r in by_vector.results]
    assert [r.score.total for r in by_text.results] == pytest.approx(
        [r.score.total for r in by_vector.results], abs=1e-6
    )
    assert by_vector.usage == common_pb2.TokenUsage()


async def test_a_weight_of_zero_is_a_value(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "peanuts", importance=0.0)
    await remember(caller, DANA, "unrelated", importance=1.0)
    weights = common_pb2.RankingWeights(importance=1.0)
    assert await search(caller, DANA, "peanuts", weights=weights) == ["unrelated", "peanuts"]
    weights = common_pb2.RankingWeights(relevance=1.0)
    assert await search(caller, DANA, "peanuts", weights=weights) == ["peanuts", "unrelated"]


async def test_recency_is_counted_from_the_moment_asked(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "then", event_time={"seconds": 1_000_000})
    reply = await caller(
        "RetrievalService/Search",
        retrieval_pb2.SearchRequest(
            scope=scope(DANA),
            query="then",
            ranked_at={"seconds": 1_000_000 + 86_400},
            weights=common_pb2.RankingWeights(recency=1.0, half_life={"seconds": 86_400}),
        ),
    )
    assert reply.results[0].score.recency == pytest.approx(0.5)


async def test_a_long_query_is_refused_or_cut_as_asked(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "word")
    assert (await failure_of(search(caller, DANA, "word " * 65))).reason == "TEXT_TOO_LONG"
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query="word " * 65, truncate=True)
    assert reply.usage.truncated


# Administration


async def test_tenants_are_made_listed_described_and_deleted(stage: Stage):
    made = await stage.admin("AdminService/CreateTenant", id="acme")
    assert (list(made.ladder), made.version, made.memories) == (["customer", "user"], 0, 0)
    assert made.health == admin_pb2.TENANT_HEALTH_READY
    await stage.admin("AdminService/CreateTenant", id="solo", ladder=["user"])
    await stage.admin("AdminService/CreateTenant", id="control")  # the name of a file beside the tenants'
    caller = await stage.key("solo")
    await remember(caller, {"user": "dana"}, "one", "two")
    described = await stage.admin("AdminService/GetTenant", id="solo")
    assert (described.version, described.memories) == (1, 2)
    assert described.model_fingerprint == FAKE_CARD.fingerprint

    first = await stage.admin("AdminService/ListTenants", page_size=2)
    rest = await stage.admin("AdminService/ListTenants", page_size=2, page_token=first.next_page_token)
    assert [t.id for t in (*first.tenants, *rest.tenants)] == ["acme", "control", "solo"]
    assert rest.next_page_token == ""

    await stage.admin("AdminService/DeleteTenant", id="solo")
    for method in ("AdminService/GetTenant", "AdminService/DeleteTenant"):
        assert (await failure_of(stage.admin(method, id="solo"))).reason == "TENANT_NOT_FOUND"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "Acme"}, "INVALID_INPUT"),
        ({"id": "../etc"}, "INVALID_INPUT"),
        ({"id": ""}, "INVALID_INPUT"),
        ({"id": "new", "ladder": ["user", "user"]}, "INVALID_INPUT"),
        ({"id": "there"}, "ALREADY_EXISTS"),
    ],
)
async def test_a_tenant_is_refused(stage: Stage, fields, reason):
    await stage.tenant("there")
    assert (await failure_of(stage.admin("AdminService/CreateTenant", **fields))).reason == reason


async def test_tenants_and_keys_outlive_a_restart(tmp_path):
    async with running_stage(tmp_path / "data") as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, "kept")
        revoked = await stage.key("acme")
        await stage.admin("AdminService/RevokeKey", id=revoked.token.split("_")[1])
    async with running_stage(tmp_path / "data") as stage:
        listed = await stage.admin("AdminService/ListTenants")
        assert [(t.id, t.health) for t in listed.tenants] == [("acme", admin_pb2.TENANT_HEALTH_COLD)]
        assert await search(stage.caller(caller.token), DANA, "kept") == ["kept"]
        failure = await failure_of(search(stage.caller(revoked.token), DANA, "kept"))
        assert failure.reason == "UNAUTHENTICATED"


async def test_a_damaged_tenant_is_reported_and_the_others_served(tmp_path):
    async with running_stage(tmp_path / "data") as stage:
        good, bad = await stage.tenant("good"), await stage.tenant("bad")
        await remember(good, DANA, "kept")
    (tmp_path / "data" / "tenants" / "bad.db").write_bytes(b"noise" * 1000)
    async with running_stage(tmp_path / "data") as stage:
        assert await search(stage.caller(good.token), DANA, "kept") == ["kept"]
        failure = await failure_of(search(stage.caller(bad.token), DANA, "kept"))
        assert (failure.code, failure.reason) == (grpc.StatusCode.DATA_LOSS, "TENANT_QUARANTINED")
        described = await stage.admin("AdminService/GetTenant", id="bad")
        assert described.health == admin_pb2.TENANT_HEALTH_QUARANTINED
        await stage.admin("AdminService/DeleteTenant", id="bad")
        await stage.admin("AdminService/CreateTenant", id="bad")
