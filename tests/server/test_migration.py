"""A tenant's model is changed over real gRPC: each step, each wrong step, and what is told meanwhile."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import DANA, Stage, remember, running_stage, scope
from migrating import NEW, NEXT_CARD, OLD, rows, standing, take, taken, two_models, vector_by
from watching import watching

from precall.engine.encoding.encoder import EncodedBatch, TokenizedText
from precall.proto import admin_pb2, common_pb2, embedding_pb2

TEXTS = ["Dana is allergic to peanuts", "The kettle is broken", "Dana likes sailing boats"]
QUERY = embedding_pb2.TEXT_ROLE_QUERY
REFUSED = (grpc.StatusCode.FAILED_PRECONDITION, "MIGRATION_REFUSED")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with two_models(tmp_path / "data") as running:
        yield running


async def answering(caller, query: str = "peanuts", **fields) -> str:
    """The fingerprint of the model that a search is answered by; it must find what there is to find."""
    reply = await caller("RetrievalService/Search", scope=scope(DANA), query=query, **fields)
    assert {result.memory.text for result in reply.results} == set(TEXTS)
    return reply.model_fingerprint


async def told_of(stage: Stage) -> admin_pb2.Migration:
    return await stage.admin("AdminService/GetMigration", tenant_id="acme")


async def test_there_and_back_and_there_for_good(stage: Stage, tmp_path: Path):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *TEXTS[:2])
    begun = await take(stage, "start")
    assert (begun.from_fingerprint, begun.to_fingerprint, begun.tenant_id) == (OLD, NEW, "acme")
    await remember(caller, DANA, TEXTS[2])
    ready = await standing(stage)
    assert (ready.state, ready.done, ready.total) == (admin_pb2.MIGRATION_STATE_READY, 3, 3)
    assert ready.compared_queries == 0 and ready.too_few_to_compare and not ready.error
    assert (ready.from_model, ready.to_model) == (FAKE_CARD.name, NEXT_CARD.name)
    assert (ready.texts_cut, ready.to_max_tokens) == (0, NEXT_CARD.max_tokens)
    assert ready.serving_fingerprint == await answering(caller) == OLD

    switched = await taken(stage, "switch")
    assert switched.state == admin_pb2.MIGRATION_STATE_SWITCHED
    assert switched.serving_fingerprint == await answering(caller) == NEW
    assert (await stage.admin("AdminService/GetTenant", id="acme")).model_fingerprint == NEW

    back = await taken(stage, "roll back")
    assert (back.state, back.done) == (admin_pb2.MIGRATION_STATE_ROLLED_BACK, 0)
    assert back.serving_fingerprint == await answering(caller) == OLD

    finished = await taken(stage, "start", "switch", "finish")
    assert (finished.state, finished.done) == (admin_pb2.MIGRATION_STATE_FINISHED, 3)
    assert await answering(caller) == NEW


async def test_afterwards_the_new_model_alone_serves_and_the_old_one_does_not(tmp_path: Path):
    async with two_models(tmp_path / "data") as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, *TEXTS)
        await taken(stage, "start", "switch", "finish")
    async with running_stage(tmp_path / "data", FakeEncoder(NEXT_CARD)) as stage:
        assert await answering(stage.caller(caller.token)) == NEW
        told = await stage.admin("AdminService/GetMigration", tenant_id="acme")
        assert (told.state, told.working) == (admin_pb2.MIGRATION_STATE_FINISHED, False)
        assert (told.from_model, told.to_model) == ("", NEXT_CARD.name), "what runs here has a name"
    async with running_stage(tmp_path / "data") as stage:
        failure = await failure_of(answering(stage.caller(caller.token)))
        assert (failure.code, failure.reason) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "MODEL_FINGERPRINT_MISMATCH",
        )
        assert NEW in failure.message and OLD in failure.message


async def test_a_server_with_one_of_the_two_says_what_it_needs(tmp_path: Path):
    async with two_models(tmp_path / "data") as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, *TEXTS)
        await taken(stage, "start")
    async with running_stage(tmp_path / "data") as stage:  # while it is being filled the old one will do
        assert await answering(stage.caller(caller.token)) == OLD
        failure = await failure_of(take(stage, "switch"))
        assert (failure.code, failure.reason) == REFUSED and "both models" in failure.message
    async with two_models(tmp_path / "data") as stage:
        await taken(stage, "switch")
    for encoder in (FakeEncoder(), FakeEncoder(NEXT_CARD)):
        async with running_stage(tmp_path / "data", encoder) as stage:
            failure = await failure_of(answering(stage.caller(caller.token)))
            assert failure.code is grpc.StatusCode.FAILED_PRECONDITION
            assert "needs both" in failure.message and "roll it back" in failure.message


@pytest.mark.parametrize(
    ("steps", "wrong", "words"),
    [
        ([], "switch", "start one first"),
        ([], "roll back", "start one first"),
        ([], "finish", "start one first"),
        (["start"], "finish", "switch when it is ready"),
        (["start", "switch"], "switch", "finish it or roll it back"),
        (["start", "roll back"], "switch", "start a new one"),
        (["start", "roll back"], "roll back", "start a new one"),
        (["start", "switch", "roll back"], "finish", "start a new one"),
        (["start", "switch", "finish"], "roll back", "start a new one"),
        (["start", "switch", "finish"], "switch", "start a new one"),
    ],
)
async def test_a_wrong_step_says_what_to_do_and_changes_nothing(
    stage: Stage, steps: list[str], wrong: str, words: str
):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *TEXTS)
    before = await taken(stage, *steps) if steps else None
    failure = await failure_of(take(stage, wrong))
    assert (failure.code, failure.reason) == REFUSED
    assert words in failure.message and "'acme'" in failure.message
    if before is not None:
        assert await standing(stage) == before


async def test_a_start_that_cannot_be_is_refused(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *TEXTS)

    async def refused(**fields: str):
        return await failure_of(stage.admin("AdminService/StartMigration", tenant_id="acme", **fields))

    failure = await refused(model=FAKE_CARD.name)
    assert (failure.code, failure.reason) == REFUSED and "already" in failure.message
    failure = await refused(model="no-such-model")
    assert failure.reason == "NOT_FOUND"
    assert FAKE_CARD.name in failure.message and NEXT_CARD.name in failure.message
    for method in ("Start", "Get", "End"):
        fields = {"tenant_id": "nobody"} | (
            {"end": admin_pb2.MIGRATION_END_SWITCH} if method == "End" else {}
        )
        failure = await failure_of(stage.admin(f"AdminService/{method}Migration", **fields))
        assert failure.reason == "TENANT_NOT_FOUND"
    for end in (admin_pb2.MIGRATION_END_UNSPECIFIED, 77):
        failure = await failure_of(stage.admin("AdminService/EndMigration", tenant_id="acme", end=end))
        assert failure.reason == "INVALID_INPUT" and "ROLL_BACK" in failure.message
    failure = await failure_of(stage.admin("AdminService/GetMigration", tenant_id="acme"))
    assert (failure.code, failure.reason) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    assert await answering(caller) == OLD


@pytest.mark.parametrize("model", [NEXT_CARD.name, NEW, ""])
async def test_the_model_is_named_by_name_or_fingerprint_or_is_the_other_one(stage: Stage, model: str):
    await stage.tenant("acme")
    await stage.admin("AdminService/StartMigration", tenant_id="acme", model=model)
    assert (await standing(stage)).to_fingerprint == NEW


async def test_a_server_with_one_model_has_nowhere_to_go(tmp_path: Path):
    async with running_stage(tmp_path / "data") as stage:
        await stage.tenant("acme")
        failure = await failure_of(take(stage, "start"))
        assert (failure.code, failure.reason) == REFUSED and "next_model" in failure.message


async def test_only_an_admin_of_the_server_may(stage: Stage):
    await stage.tenant("acme")
    await stage.tenant("brio")
    await taken(stage, "start")
    keys = [
        await stage.key("acme", role=admin_pb2.KEY_ROLE_READ),
        await stage.key("acme", role=admin_pb2.KEY_ROLE_WRITE),
        await stage.key("acme", role=admin_pb2.KEY_ROLE_ADMIN),
        await stage.key("brio", role=admin_pb2.KEY_ROLE_ADMIN),
    ]
    for key in keys:
        for method, fields in (
            ("Start", {}),
            ("Get", {}),
            ("End", {"end": admin_pb2.MIGRATION_END_SWITCH}),
        ):
            failure = await failure_of(key(f"AdminService/{method}Migration", tenant_id="acme", **fields))
            assert (failure.code, failure.reason) == (
                grpc.StatusCode.PERMISSION_DENIED,
                "PERMISSION_DENIED",
            )
    assert (await standing(stage)).state == admin_pb2.MIGRATION_STATE_READY


async def test_what_stops_the_work_is_told_and_it_goes_on_when_that_is_mended(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *TEXTS)
    assert stage.next_encoder is not None
    stage.next_encoder.fault, stage.next_encoder.broken = RuntimeError("device lost"), True
    await take(stage, "start")
    async with asyncio.timeout(20):
        while not (told := await told_of(stage)).error:  # noqa: ASYNC110 - told by asking alone
            await asyncio.sleep(0.01)
    assert (told.state, told.done, told.total) == (admin_pb2.MIGRATION_STATE_BACKFILLING, 0, 3)
    assert "MODEL_UNAVAILABLE" in told.error or "device" in told.error
    failure = await failure_of(take(stage, "switch"))
    assert (failure.code, failure.reason) == REFUSED and "0 of 3" in failure.message
    assert await answering(caller) == OLD

    stage.next_encoder.broken = False
    ready = await taken(stage, "start")
    assert (ready.state, ready.done, ready.error) == (admin_pb2.MIGRATION_STATE_READY, 3, "")


async def test_other_tenants_know_nothing_of_it(stage: Stage):
    acme, brio = await stage.tenant("acme"), await stage.tenant("brio")
    for caller in (acme, brio):
        await remember(caller, DANA, *TEXTS)
    await taken(stage, "start", "switch")
    assert (await answering(acme), await answering(brio)) == (NEW, OLD)
    failure = await failure_of(stage.admin("AdminService/GetMigration", tenant_id="brio"))
    assert failure.reason == "NOT_FOUND"
    tenants = (await stage.admin("AdminService/ListTenants")).tenants
    assert {tenant.id: tenant.model_fingerprint for tenant in tenants} == {"acme": NEW, "brio": OLD}
    assert (await stage.admin("AdminService/CreateTenant", id="new")).model_fingerprint == OLD


async def test_the_model_side_speaks_of_what_serves_the_caller(stage: Stage):
    acme, brio = await stage.tenant("acme"), await stage.tenant("brio")
    await taken(stage, "start", "switch")
    cards = [await caller("EmbeddingService/GetModel") for caller in (acme, brio, stage.admin)]
    assert [card.fingerprint for card in cards] == [NEW, OLD, OLD]
    assert [card.runtime for card in cards] == ["fake-too", "fake", "fake"]
    assert [card.dimension for card in cards] == [48, 32, 32]
    for caller, card, fingerprint in (
        (acme, NEXT_CARD, ""),
        (brio, FAKE_CARD, ""),
        (acme, FAKE_CARD, OLD),  # whoever names a model gets it, if it runs here
        (brio, NEXT_CARD, NEW),
    ):
        reply = await caller(
            "EmbeddingService/Embed", texts=["peanuts"], role=QUERY, model_fingerprint=fingerprint
        )
        assert (reply.vectors.model_fingerprint, reply.vectors.dimension) == (
            card.fingerprint,
            card.dimension,
        )
        expected = np.frombuffer(vector_by(card, "peanuts").data, "<f4")
        assert np.allclose(rows(reply.vectors)[0], expected, atol=1e-3)


async def test_vectors_are_taken_of_the_models_that_the_tenant_has(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *TEXTS)

    async def by(card) -> str:
        return await answering(caller, query_vector=vector_by(card, "peanuts"))

    async def refused(call) -> None:
        failure = await failure_of(call)
        assert (failure.code, failure.reason) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "MODEL_FINGERPRINT_MISMATCH",
        )

    await refused(by(NEXT_CARD))
    await refused(remember(caller, DANA, "x", vector=vector_by(NEXT_CARD, "x")))
    await taken(stage, "start")
    await refused(by(NEXT_CARD))  # not before it serves: it may lack what is being written
    assert await by(FAKE_CARD) == OLD
    await taken(stage, "switch")
    assert (await by(FAKE_CARD), await by(NEXT_CARD)) == (OLD, NEW)
    await refused(answering(caller, query_vector=vector_by(FAKE_CARD, "x", model_fingerprint="")))
    passes = stage.encoder.forward_passes
    (one,) = await remember(caller, DANA, "boats", vector=vector_by(NEXT_CARD, "boats"))
    (two,) = await remember(caller, DANA, "trains", vector=vector_by(FAKE_CARD, "trains"))
    assert stage.encoder.forward_passes > passes  # the first one's old vector was made here
    for card in (FAKE_CARD, NEXT_CARD):
        for memory_id, text in ((one, "boats"), (two, "trains")):
            reply = await caller(
                "RetrievalService/Search",
                scope=scope(DANA),
                query="nothing",
                query_vector=vector_by(card, text),
                limit=1,
            )
            assert reply.results[0].memory.id == memory_id
            assert reply.results[0].score.dense == pytest.approx(1.0, abs=1e-3)
    await caller("MemoryService/DeleteMemories", ids=[one, two], scope=scope(DANA))
    await taken(stage, "finish")
    await refused(by(FAKE_CARD))
    assert await by(NEXT_CARD) == NEW


async def test_a_retried_write_is_answered_although_its_model_was_given_up(stage: Stage):
    caller = await stage.tenant("acme")

    def write(request_id: str):
        memory = common_pb2.MemoryInput(scope=scope(DANA), text="boats", vector=vector_by(FAKE_CARD, "boats"))
        return caller("MemoryService/WriteMemories", memories=[memory], request_id=request_id)

    first_id = str(uuid.uuid4())
    first = await write(first_id)
    await taken(stage, "start", "switch", "finish")
    again = await write(first_id)
    assert again.replayed and (again.version, again.written) == (first.version, first.written)
    assert (await failure_of(write(str(uuid.uuid4())))).reason == "MODEL_FINGERPRINT_MISMATCH"


async def test_streams_end_and_the_next_ones_are_of_the_new_model(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, *TEXTS)
    other = await stage.tenant("brio")
    await taken(stage, "start")
    async with watching(caller) as watch, watching(other) as elsewhere:
        await watch.open_session(DANA)
        push = await watch.next("push")
        assert (push.push.vectors.model_fingerprint, push.push.vectors.dimension) == (OLD, 32)
        assert watch.events[0].opened.model_fingerprint == OLD
        await taken(stage, "switch")
        async with asyncio.timeout(10):
            while await watch.call.read() is not grpc.aio.EOF:
                pass
        await elsewhere.next("heartbeat")  # nobody else's stream ends

    async with watching(caller) as watch:
        opened = watch.events[0].opened
        assert opened.model_fingerprint == NEW
        assert tuple(opened.model_scripts) == NEXT_CARD.scripts
        await watch.open_session(DANA)
        push = await watch.next("push")
        assert (push.push.vectors.model_fingerprint, push.push.vectors.dimension) == (NEW, 48)
        for item, row in zip(push.push.items, rows(push.push.vectors), strict=True):
            expected = np.frombuffer(vector_by(NEXT_CARD, item.memory.text).data, "<f4")
            assert np.allclose(row, expected, atol=1e-3)
        await remember(caller, DANA, "Dana flies to Pune")
        push = await watch.next("push")
        assert (push.push.vectors.model_fingerprint, push.push.vectors.count) == (NEW, 1)


class HeldEncoder(FakeEncoder):
    """A pass waits while ``gate`` is closed; ``entered`` says that one came."""

    def __init__(self) -> None:
        super().__init__(NEXT_CARD)
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()

    def hold(self) -> None:
        self.entered.clear()
        self.gate.clear()

    def encode(self, texts: Sequence[TokenizedText]) -> EncodedBatch:
        self.entered.set()
        assert self.gate.wait(20)
        return super().encode(texts)


async def test_a_search_whose_model_is_given_up_meanwhile_is_answered_by_the_other_one(tmp_path: Path):
    encoder = HeldEncoder()
    async with two_models(tmp_path / "data", next_encoder=encoder, probe_seconds=300.0) as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, *TEXTS)
        await taken(stage, "start", "switch")
        encoder.hold()
        searching = asyncio.create_task(answering(caller))
        try:
            assert await asyncio.to_thread(encoder.entered.wait, 20)
            await take(stage, "roll back")
        finally:
            encoder.gate.set()
        assert await searching == OLD


async def test_a_restart_in_the_middle_goes_on(tmp_path: Path):
    encoder = HeldEncoder()
    async with two_models(tmp_path / "data", next_encoder=encoder, probe_seconds=300.0) as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, *TEXTS)
        stage.next_encoder.broken = True  # nothing of it comes through
        await take(stage, "start")
    async with two_models(tmp_path / "data") as stage:
        assert await answering(stage.caller(caller.token)) == OLD
        ready = await standing(stage)
        assert (ready.state, ready.done) == (admin_pb2.MIGRATION_STATE_READY, 3)
