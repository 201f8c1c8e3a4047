"""Streams and sessions over the wire: what is pushed, what is invalidated, and when a delete is acked."""

import asyncio
import uuid

import grpc
import grpc.aio
import numpy as np
import pytest
from failures import failure_of
from fakes.encoder import FAKE_CARD, FakeEncoder
from harness import ACME, DANA, Caller, Stage, remember, running_stage, scope, settings_for
from probing import http
from watching import USER, Watching, watching

from precall.engine.errors import Overloaded
from precall.proto import admin_pb2, anticipation_pb2, common_pb2
from precall.scoring.fusion import KEYWORD_SHARE
from precall.scoring.keyword import document_impacts
from precall.scoring.terms import analyze
from precall.scoring.vectors import FLOAT16, from_bytes
from precall.server.admin_key import read_admin_key
from precall.server.app import PrecallServer
from precall.server.model import ServedModel
from precall.server.streams import StreamBook


async def test_a_stream_opens_with_its_terms_and_beats(stage: Stage):
    caller = await stage.tenant("acme")
    async with watching(caller) as watch:
        opened = watch.events[0].opened
        assert opened.heartbeat_interval.ToMilliseconds() == 100
        assert opened.lease.ToMilliseconds() == 500
        assert opened.model_fingerprint == FAKE_CARD.fingerprint
        assert opened.maximum_age.ToSeconds() == 3600
        assert tuple(opened.model_scripts) == FAKE_CARD.scripts
        await watch.next("heartbeat")
        await watch.next("heartbeat")
        assert [event.sequence for event in watch.events] == list(range(1, len(watch.events) + 1))


async def test_a_small_rung_is_pushed_whole(stage: Stage):
    caller = await stage.tenant("acme")
    (boats,) = await remember(caller, DANA, "Dana likes boats", metadata={"lang": "en"})
    await remember(caller, ACME, "Acme flies economy")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        push = (await watch.next("push")).push
        assert (push.session_id, push.reset, push.last, push.version) == (session_id, True, True, 2)
        assert [item.memory.text for item in push.items] == ["Dana likes boats", "Acme flies economy"]
        item = push.items[0]
        assert (item.memory.id, item.rung, item.predictor) == (boats, "user", "whole_rung")
        assert dict(item.memory.metadata) == {"lang": "en"}
        assert dict(item.memory.scope.levels) == DANA
        weights = np.frombuffer(item.impacts.weights, "<f4")
        impacts = dict(zip(item.impacts.terms, weights.tolist(), strict=True))
        assert impacts == pytest.approx(document_impacts(analyze("Dana likes boats")))
        vectors = push.vectors
        assert (vectors.count, vectors.dimension) == (2, 32)
        assert vectors.format == common_pb2.VECTOR_FORMAT_FLOAT16
        rows = from_bytes(vectors.data, count=2, dimension=32, dtype=FLOAT16)
        assert np.linalg.norm(rows.astype(np.float32), axis=1) == pytest.approx([1, 1], abs=1e-2)
        assert [(claim.rung, claim.complete, claim.memories) for claim in push.rungs] == [
            ("user", True, 1),
            ("customer", True, 1),
        ]
        assert not any(claim.HasField("statistics") for claim in push.rungs)


async def test_a_client_that_names_what_it_holds_is_sent_the_difference(stage: Stage):
    caller = await stage.tenant("acme")
    kept, gone = await remember(caller, DANA, "Dana likes boats", "Dana likes trains")
    async with watching(caller) as watch:
        await watch.open_session(DANA)
        held = {item.memory.id: item.stamp for item in (await watch.next("push")).push.items}
    await caller("MemoryService/DeleteMemories", scope=scope(DANA), ids=[gone])
    (new,) = await remember(caller, DANA, "Dana likes tea")
    async with watching(caller) as watch:
        await watch.open_session(DANA, held_ids=held.keys(), held_stamps=held.values())
        push = (await watch.next("push")).push
        assert (push.reset, push.resumed, push.last) == (False, True, True)
        assert [item.memory.id for item in push.items] == [new]
        assert list(push.evicted_ids) == [gone] and kept in held
        assert [(claim.rung, claim.complete, claim.memories) for claim in push.rungs] == [
            ("user", True, 2),
            ("customer", True, 0),
        ]


async def test_a_write_reaches_open_sessions_of_its_rung(stage: Stage):
    caller = await stage.tenant("acme")
    async with watching(caller) as watch:
        await watch.open_session(DANA)
        await watch.next("push")
        await remember(caller, DANA, "Dana likes boats")
        push = (await watch.next("push")).push
        assert [(i.memory.text, i.predictor) for i in push.items] == [("Dana likes boats", "written")]
        assert (push.version, push.reset) == (1, False)
        heartbeat = (await watch.next("heartbeat")).heartbeat
        assert heartbeat.version == 1


async def test_an_observation_is_answered_with_what_it_needs_and_a_bound(tmp_path):
    async with running_stage(tmp_path / "data", complete_below=0) as stage:
        caller = await stage.tenant("acme")
        await remember(caller, DANA, "Dana is allergic to peanuts", "Dana likes boats")
        async with watching(caller) as watch:
            session_id = await watch.open_session(DANA)
            first = (await watch.next("push")).push
            assert not first.items
            started = (await watch.next("push")).push
            assert {item.predictor for item in started.items} == {"call_start"} and len(started.items) == 2
            assert not started.HasField("coverage") and not started.caused_by_sequence
            taken = await watch.observe(session_id, 1, "what about peanuts", partial=True)
            assert (taken.sequence, taken.replayed) == (1, False)
            push = (await watch.next("push")).push
            assert not push.items, "both are held already"
            assert push.caused_by_sequence == 1
            assert push.HasField("caused_at")
            assert set(push.coverage.query_terms) == set(analyze("what about peanuts"))
            assert push.coverage.keyword_share == KEYWORD_SHARE
            assert push.coverage.query_vector.format == common_pb2.VECTOR_FORMAT_FLOAT32
            assert (push.coverage.coverage_id, push.coverage.predictor) == (2, "recent_turns")
            claim = next(claim for claim in push.rungs if claim.rung == "user")
            frequencies = np.frombuffer(claim.statistics.document_frequencies, "<u4").tolist()
            assert claim.statistics.documents == 2
            assert dict(zip(claim.statistics.terms, frequencies, strict=True))["peanut"] == 1
            assert (await watch.observe(session_id, 1, "what about peanuts")).replayed


async def test_a_delete_is_acked_once_the_holder_has_applied_it(stage: Stage):
    caller = await stage.tenant("acme")
    (boats,) = await remember(caller, DANA, "Dana likes boats")
    async with watching(caller) as watch:
        await watch.open_session(DANA)
        await watch.next("push")
        assert await watch.renew() == pytest.approx(0.5)
        delete = asyncio.ensure_future(caller("MemoryService/DeleteMemories", ids=[boats], scope=scope(DANA)))
        event = await watch.next("invalidation")
        assert event.confirm
        assert list(event.invalidation.memory_ids) == [boats]
        assert event.invalidation.cause == anticipation_pb2.INVALIDATION_CAUSE_DELETED
        assert not delete.done()
        await watch.renew()  # applied up to this event
        reply = await delete
        assert list(reply.deleted_ids) == [boats]


async def test_a_delete_outwaits_a_holder_that_vanished(stage: Stage):
    caller = await stage.tenant("acme")
    (boats,) = await remember(caller, DANA, "Dana likes boats")
    async with watching(caller) as watch:
        await watch.open_session(DANA)
        await watch.next("push")
        await watch.renew()
    # The stream is gone, the lease is not: the ack comes when it has run out, and it does come.
    reply = await caller("MemoryService/DeleteMemories", ids=[boats], scope=scope(DANA))
    assert list(reply.deleted_ids) == [boats]


async def test_a_closed_session_holds_nobody_up(stage: Stage):
    caller = await stage.tenant("acme")
    (boats,) = await remember(caller, DANA, "Dana likes boats")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        await watch.next("push")
        await watch.renew()
        await caller("AnticipationService/CloseSession", session_id=session_id)
        await caller("AnticipationService/CloseSession", session_id=session_id)  # twice is as once
        await caller("MemoryService/DeleteMemories", ids=[boats], scope=scope(DANA))
        assert (await failure_of(watch.observe(session_id, 1, "hello"))).reason == "SESSION_NOT_FOUND"
        assert not any(event.HasField("invalidation") for event in watch.events)


async def test_the_stream_of_a_revoked_key_ends(stage: Stage):
    await stage.tenant("acme")
    caller = await stage.key("acme")
    async with watching(caller) as watch:
        await stage.admin("AdminService/RevokeKey", id=(caller.token or "").split("_")[1])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.next("draining")
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_streams_end_when_their_tenant_is_deleted(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana likes boats")
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        await watch.next("push")
        await watch.renew()
        deleting = asyncio.ensure_future(stage.admin("AdminService/DeleteTenant", id="acme"))
        event = await watch.next("invalidation")
        assert list(event.invalidation.session_ids) == [session_id]
        await watch.next("session_ended")
        await deleting  # within a lease, whether or not the client confirms
        with pytest.raises(AssertionError, match="ended"):
            await watch.next("push")


async def test_a_server_that_stops_says_so_first(tmp_path):
    settings = settings_for(tmp_path / "data")
    server = PrecallServer(settings, lambda _: ServedModel(FakeEncoder(), "fake"))
    endpoints = await server.start()
    async with grpc.aio.insecure_channel(endpoints.target) as channel:
        admin = Caller(channel, read_admin_key(settings.data_dir))
        await admin("AdminService/CreateTenant", id="acme")
        issued = await admin("AdminService/CreateKey", tenant_id="acme")
        async with watching(Caller(channel, issued.secret)) as watch:
            stopping = asyncio.ensure_future(server.stop())
            event = await watch.next("draining")
            assert event.draining.grace.ToMilliseconds() == 200
            await stopping


@pytest.mark.parametrize(
    ("method", "fields", "reason"),
    [
        ("Watch", {"stream_id": "1"}, "INVALID_INPUT"),
        ("OpenSession", {"stream_id": "1"}, "INVALID_INPUT"),
        ("OpenSession", {"session_id": "1"}, "INVALID_INPUT"),
        ("OpenSession", {"conversation_id": "1"}, "INVALID_INPUT"),
        ("OpenSession", {"scope": scope({"user": "dana"})}, "INVALID_SCOPE"),
        ("OpenSession", {"vector_format": 77}, "INVALID_INPUT"),
        ("OpenSession", {"vector_format": common_pb2.VECTOR_FORMAT_FLOAT32}, "INVALID_INPUT"),
        ("OpenSession", {"held_ids": [str(uuid.uuid4())]}, "INVALID_INPUT"),
        ("OpenSession", {"held_ids": ["x"], "held_stamps": [1]}, "INVALID_INPUT"),
        ("OpenSession", {"held_stamps": [1]}, "INVALID_INPUT"),
        ("OpenSession", {}, "STREAM_NOT_FOUND"),
        ("ObserveTurn", {"sequence": 0}, "INVALID_INPUT"),
        ("ObserveTurn", {"role": 0}, "INVALID_INPUT"),
        ("ObserveTurn", {"role": 77}, "INVALID_INPUT"),
        ("ObserveTurn", {"text": " "}, "INVALID_INPUT"),
        ("ObserveTurn", {"used_memory_ids": ["x"]}, "INVALID_INPUT"),
        ("ObserveTurn", {}, "SESSION_NOT_FOUND"),
        ("RenewLease", {"stream_id": "1"}, "INVALID_INPUT"),
        ("RenewLease", {}, "STREAM_NOT_FOUND"),
        ("ReportReads", {"reads": [anticipation_pb2.ReadReport()] * 1001}, "INVALID_INPUT"),
    ],
)
async def test_bad_input_is_told_as_such(stage: Stage, method, fields, reason):
    caller = await stage.tenant("acme")
    good = {
        "Watch": {"stream_id": str(uuid.uuid4())},
        "OpenSession": {
            "stream_id": str(uuid.uuid4()),
            "session_id": str(uuid.uuid4()),
            "scope": scope(DANA),
        },
        "ObserveTurn": {"session_id": str(uuid.uuid4()), "sequence": 1, "role": USER, "text": "x"},
        "RenewLease": {"stream_id": str(uuid.uuid4())},
        "ReportReads": {},
    }[method]
    failure = await failure_of(caller(f"AnticipationService/{method}", **(good | fields)))
    assert failure.reason == reason


async def test_a_stream_id_in_use_is_refused(stage: Stage):
    caller = await stage.tenant("acme")
    async with watching(caller) as watch:
        failure = await failure_of(caller("AnticipationService/Watch", stream_id=watch.stream_id))
        assert failure.reason == "ALREADY_EXISTS"
        await watch.next("heartbeat")


async def test_a_session_moves_to_its_clients_new_stream(stage: Stage):
    caller = await stage.tenant("acme")
    await remember(caller, DANA, "Dana likes boats")
    async with watching(caller) as first, watching(caller) as second:
        session_id = await first.open_session(DANA)
        await first.next("push")
        await caller(
            "AnticipationService/OpenSession",
            stream_id=second.stream_id,
            session_id=session_id,
            scope=scope(DANA),
        )
        assert (await second.next("push")).push.reset
        first.call.cancel()
        await second.observe(session_id, 1, "hello")


async def test_another_keys_stream_is_not_found(stage: Stage):
    caller = await stage.tenant("acme")
    other = await stage.key("acme", role=admin_pb2.KEY_ROLE_READ)
    async with watching(caller) as watch:
        session_id = await watch.open_session(DANA)
        intruder = Watching(other, watch.stream_id, watch.call, watch.events)
        assert (await failure_of(intruder.open_session(DANA))).reason == "STREAM_NOT_FOUND"
        assert (await failure_of(intruder.renew())).reason == "STREAM_NOT_FOUND"
        assert (await failure_of(intruder.observe(session_id, 1, "x"))).reason == "SESSION_NOT_FOUND"
        async with watching(other) as own:
            failure = await failure_of(
                other(
                    "AnticipationService/OpenSession",
                    stream_id=own.stream_id,
                    session_id=session_id,
                    scope=scope(DANA),
                )
            )
            assert failure.reason == "ALREADY_EXISTS"


def test_the_stream_book_keeps_its_books():
    book = StreamBook()
    book.open_stream("a", "key")
    book.open_stream("b", "key")
    book.open_session("s", "a", "key")
    book.open_session("t", "a", "key")
    book.open_session("s", "b", "key")
    book.check_integrity()
    book.close_stream("a")
    book.check_integrity()
    book.require_session("s", "key")
    assert (book.stream_count, book.session_count) == (1, 1)
    assert not book.close_session("s", "other")
    assert book.close_session("s", "key")
    book.close_stream("b")
    book.close_stream("b")
    book.check_integrity()
    assert (book.stream_count, book.session_count) == (0, 0)


async def test_a_session_that_was_refused_is_in_no_book(stage: Stage, monkeypatch):
    caller = await stage.tenant("acme")
    async with watching(caller) as watch:
        kept = await watch.open_session(DANA)
        failures = []

        def refuse(*_, **__):
            raise Overloaded("a stream carries at most 1 sessions", retry_after_seconds=0.1)

        monkeypatch.setattr("precall.engine.anticipation.anticipator.Anticipator.open_session", refuse)
        for _ in range(3):
            failures.append((await failure_of(watch.open_session(DANA))).reason)
        monkeypatch.undo()
        assert failures == ["OVERLOADED"] * 3
        assert "precall_sessions 1.0" in (await http(stage, "/metrics"))[1]
        await watch.observe(kept, 1, "hello")
