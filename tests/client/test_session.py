"""A session against a server on loopback: the life of a conversation, and all that may go wrong in it."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import grpc
import pytest
from fake_server import FakeServer, Refused
from pushes import SCOPE, Stored
from settable import SettableClock, TermEncoder, until

from precall.client import (
    AsyncClient,
    AsyncSession,
    ClientOptions,
    DeadlineExceeded,
    EncodedQuery,
    InvalidInput,
    InvalidScope,
    Overloaded,
    ReadDecision,
    ReadSource,
    ReadStatus,
    Unavailable,
)
from precall.client.errors import ClientClosed, VersionNotReached
from precall.client.transport import Transport

PEANUTS = Stored(text="Dana is allergic to peanuts", importance=0.9)
PUNE = Stored(text="Dana flies to Pune next month")
OFFICE = Stored(text="Acme closes at six", scope={"customer": "acme"})
EVE = Stored(text="Eve is allergic to peanuts too", scope={"customer": "acme", "user": "eve"})


@pytest.fixture
async def session(server: FakeServer, client: AsyncClient) -> AsyncIterator[AsyncSession]:
    server.add(PEANUTS, PUNE, OFFICE, EVE)
    async with client.session(SCOPE) as opened:
        assert await opened.ready(10)
        yield opened


class TestReading:
    async def test_a_complete_cache_answers_as_the_server_would(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        read = await session.read("does Dana have an allergy to peanuts")
        assert (read.source, read.status, read.decision) == ("cache", "hit", "complete")
        searched = await session.search("does Dana have an allergy to peanuts")
        assert [item.memory.id for item in read.items] == [item.memory.id for item in searched.items]
        for mine, theirs in zip(read.items, searched.items, strict=True):
            assert mine.score.relevance == pytest.approx(theirs.score.relevance, abs=1e-6)
            assert mine.memory == theirs.memory
        assert read.items[0].memory.text == PEANUTS.text and read.items[0].predictor == "rung"
        assert read.items[0].rung == "user"
        assert PEANUTS.text in read.text and read.included == 3
        assert read.version == server.version and read.elapsed_ms > 0 and not read.reason
        assert len(server.calls["Search"]) == 1, "only the search asked the server"

    async def test_a_server_of_other_formulas_is_asked(self, server: FakeServer, client: AsyncClient) -> None:
        server.add(PEANUTS)
        server.scoring_version += 1
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            read = await session.read("does Dana have an allergy to peanuts")
        assert (read.source, read.decision) == ("server", "miss") and read.items

    async def test_another_users_memories_are_never_seen(self, session: AsyncSession) -> None:
        read = await session.read("Eve allergic peanuts")
        assert EVE.id not in {item.memory.id for item in read.items}

    async def test_the_block_keeps_to_its_budget(self, session: AsyncSession) -> None:
        whole = await session.read("peanuts")
        small = await session.read("peanuts", budget_tokens=80)
        assert 0 < small.included < whole.included and len(small.items) == len(whole.items)
        assert (await session.read("peanuts", budget_tokens=0)).text == ""
        assert [item.memory for item in (await session.read("peanuts", limit=1)).items] == [
            whole.items[0].memory
        ]

    @pytest.mark.parametrize(
        "arguments",
        [
            {"query": "  "},
            {"query": "x" * 20_001},
            {"query": "q", "limit": 0},
            {"query": "q", "budget_tokens": -1},
            {"query": "q", "deadline_ms": -1},
            {"query": "q", "min_version": -1},
        ],
    )
    async def test_nonsense_is_refused_before_any_io(
        self, server: FakeServer, session: AsyncSession, arguments: dict
    ) -> None:
        with pytest.raises(InvalidInput):
            await session.read(**arguments)
        assert "Search" not in server.calls

    async def test_a_miss_asks_the_server_with_the_vector_made_here(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.complete = False
        server.add(PEANUTS, PUNE)
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            read = await session.read("quarterly numbers")
        assert (read.source, read.decision, read.status) == ("server", "miss", "hit")
        assert read.staleness_ms == 0 and read.version == server.version
        (request,) = server.calls["Search"]
        assert request.query_vector.count == 1 and request.truncate

    async def test_an_observed_question_is_served_by_its_coverage(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.complete = False
        server.add(PEANUTS, *(Stored(text=f"filler number {number}") for number in range(20)))
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            session.observe("user", "is Dana allergic to peanuts")
            await until(lambda: session.state.pushes == 2)
            read = await session.read("is Dana allergic to peanuts", limit=1)
            assert (read.source, read.decision) == ("cache", "sure")
            assert session.state.last_lead_seconds is not None
        reports = await server.called("ReportReads")
        assert any(push.HasField("lead") for report in reports for push in report.pushes)

    async def test_a_borderline_read_takes_the_server_in_time_and_the_cache_when_it_is_late(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.complete = False
        server.floor = 1.0
        server.add(PEANUTS, PUNE)
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            session.observe("user", "is Dana allergic to peanuts")
            await until(lambda: session.state.pushes == 2)
            quick = await session.read("is Dana allergic to peanuts")
            assert (quick.source, quick.decision) == ("both", "borderline")
            assert quick.items[0].predictor == "rung", "it had been here before the server's answer"
            server.hold["Search"] = asyncio.Event()
            late = await session.read("is Dana allergic to peanuts", deadline_ms=30)
            assert (late.source, late.status) == (ReadSource.CACHE, ReadStatus.HIT)
            assert late.reason.startswith("DEADLINE_EXCEEDED")
            assert [item.memory for item in late.items] == [item.memory for item in quick.items]

    async def test_a_race_is_joined_by_what_the_cache_was_told_since(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.complete = False
        server.floor = 1.0
        server.add(PEANUTS, PUNE)
        server.beating = False
        query = "is Dana allergic to peanuts"
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            session.observe("user", query)
            await until(lambda: session.state.pushes == 2)
            new = Stored(text="Dana is allergic to peanuts, says her doctor", created_version=99)
            server.push(server.session, [new], version=server.version + 1)
            await until(lambda: session.state.pushes == 3)
            read = await session.read(query, limit=2)
            assert (read.source, read.version) == ("both", server.version + 1)
            assert {item.memory.id for item in read.items} == {PEANUTS.id, new.id}

            server.version += 2  # the server is ahead: what the cache knows may be corrected already
            read = await session.read(query, limit=2)
            assert (read.source, read.decision, read.version) == ("server", "borderline", server.version)
            assert new.id not in {item.memory.id for item in read.items}

    async def test_a_read_ends_with_its_deadline_whatever_the_call_does(
        self, session: AsyncSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def deaf(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(Transport, "call", deaf)
        async with asyncio.timeout(10):
            read = await session.read("peanuts", min_version=99, deadline_ms=20)
        assert read.status == "degraded" and read.reason.startswith("DEADLINE_EXCEEDED")

    async def test_a_slow_embedding_is_not_held_against_the_server(
        self, server: FakeServer, options: ClientOptions, clock: SettableClock
    ) -> None:
        class SlowEncoder(TermEncoder):
            async def encode(self, text: str) -> EncodedQuery:
                clock.ahead += 1.0
                return await super().encode(text)

        server.complete = False
        server.add(PEANUTS)
        async with (
            AsyncClient(
                server.target, api_key="k", options=options, encoder=SlowEncoder(), clock=clock
            ) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            read = await session.read("quarterly numbers", deadline_ms=500)
            assert read.status == "degraded" and "embedding the query" in read.reason
            assert read.encode_ms >= 1000 and read.server_ms < 1000 and "Search" not in server.calls

    async def test_what_is_deleted_during_the_wait_is_not_served(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.complete = False
        server.floor = 1.0
        server.add(PEANUTS, PUNE)
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            session.observe("user", "is Dana allergic to peanuts")
            await until(lambda: session.state.pushes == 2)
            server.hold["Search"] = asyncio.Event()
            reading = asyncio.create_task(session.read("is Dana allergic to peanuts", deadline_ms=500))
            await server.called("Search")
            server.invalidate(PEANUTS.id)
            await until(lambda: session.state.items == 1)
            assert PEANUTS.id not in {item.memory.id for item in (await reading).items}

    async def test_a_late_server_on_a_miss_means_degraded(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.complete = False
        server.add(PEANUTS)
        server.hold["Search"] = asyncio.Event()
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            read = await session.read("quarterly numbers", deadline_ms=20)
            assert (read.status, read.items) == ("degraded", ())
            assert read.reason.startswith("DEADLINE_EXCEEDED")
            unasked = await session.read("quarterly numbers", deadline_ms=0)
            assert unasked.status == "degraded" and len(server.calls["Search"]) == 1

    async def test_without_an_encoder_every_read_asks_the_server(
        self, server: FakeServer, options: ClientOptions
    ) -> None:
        server.add(PEANUTS)
        async with (
            AsyncClient(server.target, api_key="key", options=options) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            read = await session.read("peanuts")
            assert (read.source, read.decision) == ("server", ReadDecision.UNENCODED)
            assert not server.calls["Search"][0].HasField("query_vector")

    async def test_an_encoder_of_another_space_is_not_compared(
        self, server: FakeServer, options: ClientOptions
    ) -> None:
        server.add(PEANUTS)
        async with (
            AsyncClient(server.target, api_key="k", options=options, encoder=TermEncoder("old")) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            read = await session.read("peanuts")
            assert (read.source, read.status, read.decision) == ("server", "hit", "unencoded")

    async def test_a_wrong_scope_is_a_programming_error(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        refusal = Refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SCOPE")
        server.refuse["OpenSession"] = [refusal] * 1000
        server.refuse["Search"] = [refusal]
        async with client.session({"planet": "mars"}) as session:
            with pytest.raises(InvalidScope):
                await session.read("peanuts")

    async def test_a_revoked_key_sees_nothing(self, server: FakeServer, session: AsyncSession) -> None:
        server.refuse["Watch"] = [Refused(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")] * 1000
        server.refuse["Search"] = [Refused(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")]
        server.break_streams()
        await until(lambda: not session.state.connected)
        read = await session.read("peanuts")
        assert (read.status, read.items, read.text) == ("degraded", (), "")
        assert read.reason.startswith("UNAUTHENTICATED")
        assert "check api_key" in read.reason and "PRECALL_API_KEY" in read.reason


class TestVersions:
    async def test_a_session_reads_its_own_writes(self, server: FakeServer, session: AsyncSession) -> None:
        server.pushes_on_write = False
        server.beating = False
        written = await session.remember("Dana likes mango lassi", kind="preference")
        read = await session.read("mango lassi")
        assert (read.source, read.decision) == ("server", ReadDecision.BEHIND)
        assert read.items[0].memory.id == written.id
        assert server.calls["Search"][-1].min_version == written.version
        server.push(server.session, [server.memories[written.id]])
        await until(lambda: session.state.version == written.version)
        read = await session.read("mango lassi")
        assert read.source == "cache" and read.items[0].memory.id == written.id

    async def test_a_demanded_version_is_waited_for_or_refused(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        read = await session.read("peanuts", min_version=server.version + 5)
        assert read.status == "degraded" and read.reason.startswith("VERSION_NOT_REACHED")
        with pytest.raises(VersionNotReached):
            await session.search("peanuts", min_version=server.version + 5)

    async def test_a_superseded_memory_is_not_served_beside_its_successor(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        first = await session.remember("Dana's seat is 4A", key="seat")
        await until(lambda: session.state.version >= first.version)
        second = await session.remember("Dana's seat is 9C", key="seat")
        assert second.superseded_ids == (first.id,)
        read = await session.read("seat")
        texts = [item.memory.text for item in read.items]
        assert "Dana's seat is 9C" in texts and "Dana's seat is 4A" not in texts

    async def test_a_request_id_is_made_and_kept_over_retries(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.refuse["WriteMemories"] = [Refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")]
        await session.remember("once")
        first, second = server.calls["WriteMemories"]
        assert first.request_id and first.request_id == second.request_id
        assert first.memories[0].source.conversation_id == session.conversation_id

    async def test_forgetting_is_immediate_here(self, server: FakeServer, session: AsyncSession) -> None:
        unknown = str(uuid.uuid4())
        forgotten = await session.forget(PEANUTS.id, unknown)
        assert forgotten.deleted_ids == (PEANUTS.id,) and forgotten.missing_ids == (unknown,)
        read = await session.read("peanuts")
        assert PEANUTS.id not in {item.memory.id for item in read.items}

    async def test_an_invalidation_is_confirmed_at_once_and_after_it_was_applied(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.beating = False
        (sequence,) = server.invalidate(PEANUTS.id, confirm=True).values()
        await until(lambda: server.stream.applied >= sequence)
        assert session.state.items == 2


class TestOutage:
    async def test_reads_degrade_and_the_session_recovers_by_itself(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        await server.stop()
        await until(lambda: not session.state.connected)
        during = await session.read("peanuts")
        assert (during.status, during.source) == ("degraded", "cache")
        assert during.items[0].memory.id == PEANUTS.id and during.reason
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await session.search("peanuts", deadline_seconds=0.05)
        session.observe("user", "are you still there")
        server.add(Stored(text="Dana sold the peanuts"))
        await server.start()
        await until(lambda: session.state.ready)
        after = await session.read("peanuts")
        assert (after.status, after.source) == ("hit", "cache") and len(after.items) == 4
        observed = await server.called("ObserveTurn")
        assert [each.text for each in observed] == ["are you still there"]

    async def test_in_an_outage_only_the_first_read_may_wait(
        self, server: FakeServer, session: AsyncSession, clock: SettableClock
    ) -> None:
        server.hold["Watch"] = server.hold["Search"] = asyncio.Event()
        server.break_streams()
        await until(lambda: not session.state.connected)
        first = await session.read("peanuts", deadline_ms=20)
        assert first.status == "degraded" and first.reason.startswith("DEADLINE_EXCEEDED")
        asked = len(server.calls["Search"])
        for _ in range(3):
            read = await session.read("peanuts", deadline_ms=60_000)
            assert read.status == "degraded" and read.items, "must not wait for the minute it may take"
        clock.ahead += 1.5
        await session.read("peanuts", deadline_ms=60_000)
        await server.called("Search", asked + 1)
        server.hold.pop("Search").set()
        await until(lambda: len(server.calls["Search"]) == asked + 1)
        server.hold["Watch"].set()
        await until(lambda: session.state.ready)
        assert (await session.read("peanuts")).status == "hit"

    async def test_the_lease_is_the_end_of_every_cached_item(
        self, server: FakeServer, session: AsyncSession, clock: SettableClock
    ) -> None:
        await server.stop()
        await until(lambda: not session.state.connected)
        clock.ahead += server.lease_seconds - 2
        assert (await session.read("peanuts")).items
        clock.ahead += 2
        assert not session.state.lease_fresh
        read = await session.read("peanuts")
        assert (read.status, read.items, read.text) == ("degraded", (), "")

    async def test_nothing_is_served_before_a_lease_was_granted(
        self, server: FakeServer, client: AsyncClient
    ) -> None:
        server.add(PEANUTS)
        server.hold["RenewLease"] = asyncio.Event()
        server.hold["Search"] = asyncio.Event()
        async with client.session(SCOPE) as session:
            await until(lambda: session.state.items == 1)
            read = await session.read("peanuts", deadline_ms=20)
            assert read.items == () and not session.state.lease_fresh
            assert not await session.ready(0.01)
            server.hold.pop("RenewLease").set()
            assert await session.ready(10)

    async def test_a_silent_stream_is_not_trusted_and_replaced(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.heartbeat_seconds = 0.05
        server.break_streams()
        await server.called("Watch", 2)
        await until(lambda: session.state.ready)
        server.beating = False
        await server.called("Watch", 3)
        assert len({each.stream_id for each in server.calls["Watch"]}) == len(server.calls["Watch"])

    async def test_a_gap_in_the_sequence_means_a_new_stream(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.stream.sequence += 1
        await server.called("Watch", 2)
        await until(lambda: session.state.ready)

    async def test_a_draining_server_is_left(self, server: FakeServer, session: AsyncSession) -> None:
        server.stream.send(draining={})
        await server.called("Watch", 2)
        await until(lambda: session.state.ready)

    async def test_a_stream_that_the_server_forgot_is_opened_again(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.refuse["RenewLease"] = [Refused(grpc.StatusCode.NOT_FOUND, "STREAM_NOT_FOUND")]
        await server.called("Watch", 2)
        await until(lambda: session.state.ready)

    async def test_a_session_that_the_server_forgot_is_dropped_and_opened_again(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.sessions.clear()
        session.observe("user", "hello again")
        await server.called("OpenSession", 2)
        await until(lambda: session.state.ready)
        observed = await server.called("ObserveTurn", 2)
        assert [each.text for each in observed] == ["hello again"] * 2
        assert observed[0].sequence == observed[1].sequence

    async def test_an_ended_session_shows_nothing_until_it_is_filled_again(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.pushes_on_open = False
        server.stream.send(session_ended={"session_id": session.session_id, "reason": "test"})
        await server.called("OpenSession", 2)
        assert session.state.items == 0
        assert (await session.read("peanuts")).source == "server"

    async def test_items_that_aged_are_asked_for_anew(
        self, server: FakeServer, session: AsyncSession, clock: SettableClock
    ) -> None:
        server.maximum_age_seconds = 3600.0
        await until(lambda: session.state.lease_fresh)
        clock.ahead += 3601
        await until(lambda: session.state.connected and session.state.lease_fresh)
        read = await session.read("peanuts")
        assert read.source == "server"
        await server.called("OpenSession", 2)
        await until(lambda: session.state.items == 3)

    async def test_a_new_model_on_the_server_empties_the_cache_first(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.fingerprint = "new-model"
        server.pushes_on_open = False
        server.break_streams()
        await server.called("Watch", 2)
        read = await session.read("peanuts")
        assert read.source == "server" and read.status == "hit"

    async def test_entering_does_not_wait_for_the_server(self, options: ClientOptions) -> None:
        async with (
            AsyncClient("127.0.0.1:1", api_key="key", options=options, encoder=TermEncoder()) as client,
            client.session(SCOPE) as session,
        ):
            assert not await session.ready(0.01)
            session.observe("user", "hello")
            read = await session.read("peanuts")
            assert (read.status, read.items) == ("degraded", ())
            with pytest.raises((Unavailable, DeadlineExceeded)):
                await session.search("q", deadline_seconds=0.05)


class TestReports:
    async def test_reads_are_told_without_their_words(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        await session.read("does Dana have a secret allergy")
        (request, *_) = [each for each in await server.called("ReportReads") if each.reads]
        (report,) = request.reads
        assert report.session_id == session.session_id and report.decision == "complete"
        assert report.items == 3 and list(report.used_predictors) == ["rung"] * 3
        assert report.HasField("elapsed") and report.HasField("encode") and report.HasField("staleness")
        assert b"allerg" not in request.SerializeToString()

    async def test_reports_that_fail_are_dropped_and_bother_nobody(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.refuse["ReportReads"] = [Refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")]
        await session.read("peanuts")
        await server.called("ReportReads")
        assert (await session.read("peanuts")).status == "hit"
        await server.called("ReportReads", 2)


class TestEdges:
    async def test_overload_is_waited_out_when_the_server_says_how_long(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        overloaded = Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", pushback_ms=5)
        server.refuse["Search"] = [overloaded]
        assert (await session.search("peanuts")).items
        server.refuse["Search"] = [
            Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", pushback_ms=60_000)
        ]
        with pytest.raises(Overloaded) as caught:
            await session.search("peanuts", deadline_seconds=5)
        assert caught.value.retry_after_seconds == 60

    async def test_only_unavailable_is_tried_again(self, server: FakeServer, session: AsyncSession) -> None:
        server.refuse["Search"] = [Refused(grpc.StatusCode.INTERNAL, "INTERNAL")]
        with pytest.raises(Exception, match="INTERNAL"):
            await session.search("peanuts")
        assert len(server.calls["Search"]) == 1

    async def test_the_key_travels_as_a_bearer(self, server: FakeServer, session: AsyncSession) -> None:
        assert all(each["authorization"] == "Bearer key" for each in server.metadata)

    async def test_the_scope_cannot_be_changed(self, session: AsyncSession) -> None:
        with pytest.raises(TypeError):
            session.scope["user"] = "eve"  # type: ignore[index]

    async def test_a_closed_session_says_so(self, client: AsyncClient) -> None:
        session = client.session(SCOPE)
        with pytest.raises(ClientClosed):
            await session.read("peanuts")
        async with session:
            pass
        with pytest.raises(ClientClosed):
            session.observe("user", "hello")

    async def test_closing_tells_the_server(self, server: FakeServer, client: AsyncClient) -> None:
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            session.observe("user", "last words")
        assert [each.text for each in server.calls["ObserveTurn"]] == ["last words"]
        assert not server.sessions

    async def test_forget_scope_reaches_the_cache(
        self, server: FakeServer, client: AsyncClient, session: AsyncSession
    ) -> None:
        forgotten = await client.forget_scope(SCOPE)
        assert forgotten.deleted == 2
        await until(lambda: session.state.items == 1)

    async def test_two_sessions_share_one_stream(self, server: FakeServer, client: AsyncClient) -> None:
        server.add(PEANUTS, EVE)
        async with client.session(SCOPE) as dana, client.session({**SCOPE, "user": "eve"}) as eve:
            assert await dana.ready(10) and await eve.ready(10)
            assert len(server.streams) == 1
            assert [i.memory.id for i in (await dana.read("peanuts")).items] == [PEANUTS.id]
            assert [i.memory.id for i in (await eve.read("peanuts")).items] == [EVE.id]
