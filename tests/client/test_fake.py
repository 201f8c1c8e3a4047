"""The same conversations on the fake and on a real client: the fake may promise no more than the real one."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

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
    Unavailable,
    VersionNotReached,
)


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
            first = await session.remember("once", request_id="r-1")
            assert await session.remember("once", request_id="r-1") == first
            assert len((await session.search("once")).items) == 1

    async def test_forgetting(self, either: AsyncClientInterface) -> None:
        async with either.session(SCOPE) as session:
            one, two = await session.remember_many([MemoryDraft(text="one"), MemoryDraft(text="two")])
            assert one.version == two.version
            forgotten = await session.forget(one.id, "nobody")
            assert forgotten.deleted_ids == (one.id,) and forgotten.missing_ids == ("nobody",)
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
            with pytest.raises(ClientClosed):
                await session.__aenter__()


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
            for call in (session.search("q"), session.remember("x"), session.forget("x")):
                with pytest.raises(Unavailable):
                    await call
            fake.go_online()
            assert (await session.read("Pune")).status == "hit"

    async def test_what_was_observed_can_be_looked_at(self, fake: FakeAsyncClient) -> None:
        async with fake.session(SCOPE) as session:
            session.observe("assistant", "here you are", used=["m-1"])
            session.observe("user", "", partial=True)
            assert [(each.role, each.used_ids) for each in session.observed] == [("assistant", ("m-1",))]

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
            await session.remember("another", id="m-2")
            with pytest.raises(AlreadyExists):
                await session.remember("again", id="m-2")
        page = await fake.memories.list(SCOPE, page_size=1)
        rest = await fake.memories.list(SCOPE, page_size=1, page_token=page.next_page_token)
        assert [m.text for m in (*page.memories, *rest.memories)] == ["expired", "another"]
        assert not rest.next_page_token
        found = await fake.memories.get(SCOPE, ["m-2", "m-3"])
        assert found.missing_ids == ("m-3",) and found.memories[0].id == "m-2"

    async def test_a_gap_in_the_ladder_is_refused(self, fake: FakeAsyncClient) -> None:
        with pytest.raises(InvalidScope, match="customer > user"):
            fake.session({"user": "dana"})
