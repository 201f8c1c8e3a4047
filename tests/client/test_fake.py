"""The same conversations on the fake and on a real client: the fake may promise no more than the real one."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from fake_server import FakeServer
from pushes import SCOPE

from precall.client import (
    AlreadyExists,
    AsyncClient,
    AsyncClientInterface,
    ClientClosed,
    FakeAsyncClient,
    InvalidInput,
    InvalidScope,
    MemoryDraft,
    MemoryFilter,
    MemorySource,
    Unavailable,
    VersionNotReached,
)

MEMORY_ID = "5f0c1d52-6f0f-4f7e-9d5e-0f6f3a1f7c11"
NOBODY = "5f0c1d52-6f0f-4f7e-9d5e-0f6f3a1f7c12"
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=23)))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATE = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=23)))


@pytest.fixture(params=["real", "fake"])
async def either(
    request: pytest.FixtureRequest, server: FakeServer, client: AsyncClient
) -> AsyncIterator[AsyncClientInterface]:
    if request.param == "real":
        yield client
    else:
        async with FakeAsyncClient() as fake:
            yield fake


class TestBoth:
    async def test_what_is_remembered_is_read(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            assert await session.ready(10)
            written = await session.remember("Dana is allergic to peanuts", kind="fact")
            session.observe("user", "any allergies?", partial=True)
            read = await session.read("peanut allergy", limit=5)
            assert [item.memory.id for item in read.items] == [written.id]
            assert read.status == "hit" and "peanuts" in read.text and read.included == 1
            assert read.version == written.version == session.state.version

    async def test_nothing_remembered_is_empty(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            assert await session.ready(10)
            read = await session.read("anything")
            assert (read.status, read.items, read.text, read.decision) == ("empty", (), "", "complete")

    async def test_users_do_not_see_each_other(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as dana, either.session({**SCOPE, "user": "eve"}) as eve:
            await dana.remember("a secret")
            assert (await eve.read("secret")).items == ()
            assert (await eve.search("secret")).items == ()

    async def test_a_key_supersedes(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            first = await session.remember("seat 4A", key="seat")
            second = await session.remember("seat 9C", key="seat")
            assert second.superseded_ids == (first.id,) and second.version > first.version
            assert [i.memory.text for i in (await session.search("seat")).items] == ["seat 9C"]

    async def test_a_repeated_request_is_a_no_op(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            first = await session.remember("once", request_id=MEMORY_ID)
            assert await session.remember("once", request_id=MEMORY_ID) == first
            assert len((await session.search("once")).items) == 1

    async def test_forgetting(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            one, two = await session.remember_many([MemoryDraft(text="one"), MemoryDraft(text="two")])
            assert one.version == two.version
            forgotten = await session.forget(one.id, NOBODY)
            assert forgotten.deleted_ids == (one.id,) and forgotten.missing_ids == (NOBODY,)
            assert [i.memory.id for i in (await session.search("one two")).items] == [two.id]
            assert (await either.forget_scope(SCOPE)).deleted == 1

    async def test_nonsense_is_refused(self, either: AsyncClientInterface) -> None:
        with pytest.raises(InvalidScope):
            either.session({})
        with pytest.raises(InvalidInput):
            either.session(SCOPE, "no uuid")
        session = either.session(SCOPE)
        with pytest.raises(ClientClosed):
            await session.read("too early")
        async with session:
            for bad in (
                session.read(""),
                session.search("q", mode="slow"),
                session.remember(" "),
                session.remember("x", kind="rumour"),
                session.remember("x", importance=2.0),
                session.remember("x", event_time=datetime(2026, 1, 1)),
                session.remember_many([]),
                session.forget(),
            ):
                with pytest.raises(InvalidInput):
                    await bad
            with pytest.raises(VersionNotReached):
                await session.search("q", min_version=99)

    @pytest.mark.parametrize(
        ("call", "arguments"),
        [
            ("read", {"query": "a\ud800"}),
            ("read", {"query": 5}),
            ("read", {"query": "q", "limit": 1.5}),
            ("read", {"query": "q", "limit": "10"}),
            ("read", {"query": "q", "budget_tokens": 2.5}),
            ("read", {"query": "q", "deadline_ms": "50"}),
            ("read", {"query": "q", "deadline_ms": float("nan")}),
            ("read", {"query": "q", "min_version": 2**70}),
            ("read", {"query": "q", "min_version": -1}),
            ("read", {"query": "q", "min_version": "1"}),
            ("search", {"query": "a\udcff"}),
            ("search", {"query": "q", "min_version": 2**70}),
            ("search", {"query": "q", "as_of": EARLY}),
            ("read", {"query": "q", "min_relevance": 1.01}),
            ("read", {"query": "q", "min_relevance": float("nan")}),
            ("search", {"query": "q", "min_relevance": "0.5"}),
            ("search", {"query": "q", "filter": {"kinds": ["fact"]}}),
            ("search", {"query": "q", "filter": MemoryFilter(kinds="fact")}),
            ("search", {"query": "q", "filter": MemoryFilter(kinds=["rumour"])}),
            ("search", {"query": "q", "filter": MemoryFilter(metadata={"a": 1})}),  # type: ignore[dict-item]
            ("search", {"query": "q", "filter": MemoryFilter(event_from=datetime(2026, 1, 1))}),
            ("search", {"query": "q", "filter": MemoryFilter(event_from=NOON, event_until=NOON)}),
            ("remember", {"text": "a\ud800"}),
            ("remember", {"text": None}),
            ("remember", {"text": "x", "key": "\ud800"}),
            ("remember", {"text": "x", "kind": ["fact"]}),
            ("remember", {"text": "x", "id": "m-1"}),
            ("remember", {"text": "x", "questions": "abc"}),
            ("remember", {"text": "x", "questions": ["abc", 5]}),
            ("remember", {"text": "x", "metadata": {"a": 1}}),
            ("remember", {"text": "x", "metadata": {1: "a"}}),
            ("remember", {"text": "x", "metadata": "a=1"}),
            ("remember", {"text": "x", "importance": "high"}),
            ("remember", {"text": "x", "confidence": 10**400}),
            ("remember", {"text": "x", "source": {"uri": "u"}}),
            ("remember", {"text": "x", "source": MemorySource(uri="\ud800")}),
            ("remember", {"text": "x", "source": MemorySource(memory_ids=("m-1",))}),
            ("remember", {"text": "x", "event_time": EARLY}),
            ("remember", {"text": "x", "expires_at": LATE}),
            ("remember", {"text": "x", "valid_from": "2026-01-01"}),
            ("remember_many", {"drafts": ["x"]}),
            ("remember_many", {"drafts": [MemoryDraft(text="x", questions="abc")]}),  # type: ignore[arg-type]
        ],
        ids=lambda value: value if isinstance(value, str) else "-".join(value),
    )
    async def test_what_the_wire_cannot_carry_is_refused(
        self, either: AsyncClientInterface, call: str, arguments: dict[str, Any]
    ) -> None:
        async with either.session(SCOPE) as session:
            with pytest.raises(InvalidInput):
                await getattr(session, call)(**arguments)

    async def test_a_list_refuses_a_filter_that_is_none(self, either: AsyncClientInterface) -> None:
        with pytest.raises(InvalidInput, match="kind 'rumour' is unknown"):
            await either.memories.list(SCOPE, filter=MemoryFilter(kinds=["rumour"]))

    async def test_what_is_not_relevant_can_be_left_out(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            assert await session.ready(10)
            await session.remember("the kettle is broken")
            assert (await session.read("peanut allergy")).status == "hit"
            read = await session.read("peanut allergy", min_relevance=0.9)
            assert (read.status, read.items, read.text) == ("empty", (), "")
            assert (await session.search("peanut allergy", min_relevance=0.9)).items == ()
            assert len((await session.search("peanut allergy")).items) == 1

    async def test_the_bad_one_of_many_is_named(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            with pytest.raises(InvalidInput, match=r"^memory 1: text is empty"):
                await session.remember_many([MemoryDraft(text="fine"), MemoryDraft(text=" ")])
            with pytest.raises(InvalidInput, match=r"^text is empty"):
                await session.remember(" ")

    async def test_an_endless_deadline_has_not_passed(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            written = await session.remember("Dana likes lassi")
            found = await session.search("lassi", deadline_seconds=float("inf"))
            assert [item.memory.id for item in found.items] == [written.id]

    @pytest.mark.parametrize("scope", [{"customer": "a\ud800"}, {"\udcff": "acme"}, {"customer": 5}, "acme"])
    async def test_a_scope_that_is_none_is_refused(self, either: AsyncClientInterface, scope: Any) -> None:
        with pytest.raises(InvalidScope):
            either.session(scope)
        with pytest.raises(InvalidScope):
            await either.memories.list(scope)

    async def test_one_id_is_not_taken_for_its_characters(self, either: AsyncClientInterface) -> None:
        with pytest.raises(InvalidInput, match="list of strings"):
            await either.memories.delete(SCOPE, MEMORY_ID)

    async def test_a_session_is_entered_once(self, either: AsyncClientInterface) -> None:
        session = either.session(SCOPE)
        async with session:
            with pytest.raises(ClientClosed, match="once"):
                await session.__aenter__()
            assert (await session.read("anything", deadline_ms=0)).items == ()
        with pytest.raises(ClientClosed, match="once"):
            await session.__aenter__()
        with pytest.raises(ClientClosed, match="not open"):
            await session.read("too late")

    async def test_a_client_is_entered_once(self, either: AsyncClientInterface) -> None:
        with pytest.raises(ClientClosed, match="once"):
            await either.__aenter__()
        either.session(SCOPE)
        await either.__aexit__(None, None, None)
        with pytest.raises(ClientClosed, match="once"):
            await either.__aenter__()
        with pytest.raises(ClientClosed, match="not open"):
            either.session(SCOPE)


class TestFakeAlone:
    @pytest.fixture
    async def fake(self) -> AsyncIterator[FakeAsyncClient]:
        async with FakeAsyncClient() as client:
            yield client

    async def test_an_outage_can_be_played(self, fake: FakeAsyncClient) -> None:
        async with fake.session(SCOPE) as session:
            await session.remember("Dana flies to Pune")
            fake.go_offline()
            read = await session.read("Pune")
            assert read.status == "degraded" and read.items and read.reason.startswith("UNAVAILABLE")
            assert not await session.ready() and not session.state.connected
            for call in (session.search("q"), session.remember("x"), session.forget(NOBODY)):
                with pytest.raises(Unavailable):
                    await call
            fake.go_online()
            assert (await session.read("Pune")).status == "hit"

    async def test_what_was_observed_can_be_looked_at(self, fake: FakeAsyncClient) -> None:
        async with fake.session(SCOPE) as session:
            session.observe("assistant", "here you are", used=[MEMORY_ID])
            session.observe("user", "", partial=True)
            assert [(each.role, each.used_ids) for each in session.observed] == [("assistant", (MEMORY_ID,))]

    async def test_the_newer_event_wins_whatever_arrives_last(self, fake: FakeAsyncClient) -> None:
        now = datetime.now(UTC)
        async with fake.session(SCOPE) as session:
            await session.remember("seat 9C", key="seat", event_time=now)
            late = await session.remember("seat 4A", key="seat", event_time=now - timedelta(days=1))
            assert late.state == "superseded"
            history = await fake.memories.history(SCOPE, "seat")
            assert [each.text for each in history] == ["seat 9C", "seat 4A"]

    async def test_validity_pages_and_ids(self, fake: FakeAsyncClient) -> None:
        past = datetime.now(UTC) - timedelta(days=1)
        async with fake.session(SCOPE) as session:
            await session.remember("expired", expires_at=past)
            assert (await session.read("expired")).items == ()
            await session.remember("standing")
            await session.remember("another", id=MEMORY_ID)
            with pytest.raises(AlreadyExists):
                await session.remember("again", id=MEMORY_ID)
        page = await fake.memories.list(SCOPE, page_size=1)
        rest = await fake.memories.list(SCOPE, page_size=1, page_token=page.next_page_token)
        assert [m.text for m in (*page.memories, *rest.memories)] == ["standing", "another"]
        assert not rest.next_page_token
        found = await fake.memories.get(SCOPE, [MEMORY_ID, NOBODY])
        assert found.missing_ids == (NOBODY,) and found.memories[0].id == MEMORY_ID

    async def test_a_gap_in_the_ladder_is_refused(self, fake: FakeAsyncClient) -> None:
        with pytest.raises(InvalidScope, match="customer > user"):
            fake.session({"user": "dana"})
