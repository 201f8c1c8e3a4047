"""Sampled reads are compared with the server afterwards; too many wrong ones make the client stricter."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import grpc
import pytest
from fake_server import FakeServer, Refused
from pushes import SCOPE, Stored
from read_items import read_item
from settable import SettableClock, TermEncoder, until

from precall.client import (
    AsyncClient,
    AsyncSession,
    ClientOptions,
    ConfigurationError,
    EncodedQuery,
    ReadItem,
    server_search,
)
from precall.client.live_checks import LiveChecks, Served, Verdict
from precall.client.read import SearchResult
from precall.scoring.approximation import Approximation

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUESTION = "is Dana allergic to peanuts"


def answer(items: Sequence[ReadItem], *, version: int = 5) -> SearchResult:
    return SearchResult(items, version, visible=100, truncated=False)


def ten(*, without: str = "") -> list[ReadItem]:
    return [
        read_item(name, 0.9 - position / 20) for position, name in enumerate("abcdefghij") if name != without
    ]


class TestVerdict:
    def test_equal_answers_are_right_in_any_order_of_their_tail(self) -> None:
        assert Served(ten(), 10, 5).compare(answer(ten())) is Verdict.RIGHT
        assert Served([*ten()[:5], *reversed(ten()[5:])], 10, 5).compare(answer(ten())) is Verdict.RIGHT

    @pytest.mark.parametrize(("missing", "verdict"), [("a", "wrong"), ("c", "wrong"), ("d", "right")])
    def test_it_is_wrong_without_one_of_the_best_three(self, missing: str, verdict: str) -> None:
        served = Served([*ten(without=missing), read_item("late", 0.2)], 10, 5)
        assert served.compare(answer(ten())).value == verdict

    def test_a_read_of_fewer_is_judged_by_as_many(self) -> None:
        assert Served(ten()[:1], 1, 5).compare(answer(ten()[:1])) is Verdict.RIGHT
        assert Served(ten()[1:2], 1, 5).compare(answer(ten()[:1])) is Verdict.WRONG

    def test_what_ties_with_the_last_one_served_is_not_missing(self) -> None:
        served = Served([read_item("x", 0.5)], 1, 5)
        assert served.compare(answer([read_item("y", 0.50005)])) is Verdict.RIGHT
        assert served.compare(answer([read_item("y", 0.51)])) is Verdict.WRONG

    def test_a_short_answer_has_room_for_everything(self) -> None:
        assert Served([read_item("x", 0.5)], 10, 5).compare(answer([read_item("y", 0.1)])) is Verdict.WRONG
        assert Served([], 10, 5).compare(answer([])) is Verdict.RIGHT

    def test_what_was_written_since_is_not_held_against_it(self) -> None:
        new = [read_item("new", 0.95, created=6), *ten()[:9]]
        assert Served(ten(), 10, 5).compare(answer(new, version=6)) is Verdict.UNCLEAR
        assert (
            Served(ten(), 10, 5).compare(answer([read_item("n", 0.95), *ten()[:9]], version=6))
            is Verdict.WRONG
        )
        assert Served(ten(), 10, 5).compare(answer(new)) is Verdict.WRONG, (
            "at the same version there is no excuse"
        )

    def test_what_moved_up_because_others_went_is_not_held_against_it(self) -> None:
        moved_up = [read_item("k", 0.7), *ten()[6:]]
        assert Served(ten(), 10, 5).compare(answer(moved_up, version=6)) is Verdict.UNCLEAR
        assert Served(ten(), 10, 5).compare(answer(moved_up)) is Verdict.WRONG


class TestSampling:
    def test_the_share_decides(self, clock: SettableClock) -> None:
        draws = iter([0.009, 0.01, 0.5])
        checks = LiveChecks(share=0.01, wrong_bar=0.02, clock=clock, draw=lambda: next(draws))
        assert [checks.take_turn() for _ in range(3)] == [True, False, False]
        assert not LiveChecks(share=0.0, wrong_bar=0.02, clock=clock, draw=lambda: 0.0).take_turn()

    def test_at_most_one_a_second(self, clock: SettableClock) -> None:
        checks = LiveChecks(share=1.0, wrong_bar=0.02, clock=clock)
        assert checks.take_turn() and not checks.take_turn()
        clock.ahead += 1.0
        assert checks.take_turn()

    async def test_one_at_a_time_and_each_is_told_of_once(self, clock: SettableClock) -> None:
        checks = LiveChecks(share=1.0, wrong_bar=0.02, clock=clock)
        gate, verdicts = asyncio.Event(), list[Verdict | None]()

        async def ask() -> SearchResult:
            await gate.wait()
            return answer(ten())

        assert checks.take_turn()
        check = checks.start(Served(ten(), 10, 5), ask, verdicts.append)
        clock.ahead += 5.0
        assert not checks.take_turn()
        gate.set()
        await check
        assert verdicts == [Verdict.RIGHT] and checks.take_turn()

    async def test_a_check_that_is_cancelled_before_it_began_is_told_of_too(
        self, clock: SettableClock
    ) -> None:
        checks = LiveChecks(share=1.0, wrong_bar=0.02, clock=clock)
        verdicts: list[Verdict | None] = []
        assert checks.take_turn()

        async def ask() -> SearchResult:
            raise AssertionError("nobody wants to know any more")

        check = checks.start(Served(ten(), 10, 5), ask, verdicts.append)
        check.cancel()
        await asyncio.wait([check])
        clock.ahead += 1.0
        assert verdicts == [None] and checks.take_turn()

    @pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
    def test_options_outside_their_range_are_refused(self, value: float) -> None:
        with pytest.raises(ConfigurationError, match="live_check_share"):
            ClientOptions(live_check_share=value)
        with pytest.raises(ConfigurationError, match="live_wrong_bar"):
            ClientOptions(live_wrong_bar=value)


class TestLive:
    """Against a server that pushes what its turns find, and says that nothing else matters (``floor`` 0)."""

    @pytest.fixture
    def options(self, options: ClientOptions) -> ClientOptions:
        return dataclasses.replace(options, live_check_share=1.0, live_wrong_bar=0.0)

    @pytest.fixture
    async def session(
        self, server: FakeServer, client: AsyncClient, clock: SettableClock
    ) -> AsyncIterator[AsyncSession]:
        server.complete = False
        server.floor = 0.0
        server.add(*(Stored(text=f"Dana is allergic to peanuts, note {number}") for number in range(3)))
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            session.observe("user", QUESTION)
            await until(lambda: session.state.pushes == 2)
            yield session

    async def reports(self, server: FakeServer, checked: bool) -> list[bool]:
        """Of the reads that were checked: whether they were wrong."""
        await until(
            lambda: any(
                read.HasField("checked_wrong") is checked
                for call in server.calls.get("ReportReads", [])
                for read in call.reads
            )
        )
        reads = [read for call in server.calls["ReportReads"] for read in call.reads]
        return [read.checked_wrong for read in reads if read.HasField("checked_wrong")]

    async def test_a_right_one_is_reported_once_and_with_its_read(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        read = await session.read(QUESTION, limit=3)
        assert (read.source, read.decision) == ("cache", "sure")
        (request,) = await server.called("Search")
        assert request.min_version == read.version and not request.HasField("query_vector")
        assert await self.reports(server, checked=True) == [False]
        assert sum(len(call.reads) for call in server.calls["ReportReads"]) == 1
        state = session.state
        assert (state.checked_reads, state.wrong_reads, state.strict) == (1, 0, False)

    async def test_the_read_does_not_wait_for_its_check(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.hold["Search"] = asyncio.Event()
        read = await session.read(QUESTION, limit=3)
        assert read.source == "cache" and read.server_ms == 0
        await server.called("Search")
        assert session.state.checked_reads == 0
        assert not any(call.reads for call in server.calls.get("ReportReads", []))
        again = await session.read(QUESTION, limit=3)
        assert again.source == "cache" and len(server.calls["Search"]) == 1, "one check at a time"
        server.hold["Search"].set()
        assert await self.reports(server, checked=True) == [False]

    async def test_a_wrong_one_makes_the_client_strict_until_it_is_better(
        self, server: FakeServer, session: AsyncSession, clock: SettableClock
    ) -> None:
        (missed,) = [Stored(text="Dana is allergic to peanuts")]
        server.memories[missed.id] = missed  # the cache was not told, and its version says that it was
        assert (await session.read(QUESTION, limit=3)).source == "cache"
        assert await self.reports(server, checked=True) == [True]
        assert session.state.strict and session.state.wrong_reads == 1

        raced = await session.read(QUESTION, limit=3)
        assert (raced.source, raced.decision) == ("both", "borderline")
        assert raced.items[0].memory.id == missed.id
        assert session.state.wrong_reads == 2, "with both answers here, that was a check as well"

        del server.memories[missed.id]
        for _ in range(200):
            assert session.state.strict
            await session.read(QUESTION, limit=3)
        assert not session.state.strict
        assert (await session.read(QUESTION, limit=3)).source == "cache"

    async def test_a_check_that_failed_says_nothing(self, server: FakeServer, session: AsyncSession) -> None:
        server.refuse["Search"] = [Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")]
        await session.read(QUESTION, limit=3)
        await server.called("Search")
        assert await self.reports(server, checked=False) == []
        assert session.state.checked_reads == 0

    async def test_complete_rungs_need_no_check(self, server: FakeServer, client: AsyncClient) -> None:
        server.add(Stored(text="Dana is allergic to peanuts"))
        async with client.session(SCOPE) as session:
            assert await session.ready(10)
            assert (await session.read(QUESTION)).decision == "complete"
            assert await self.reports(server, checked=False) == []
        assert "Search" not in server.calls

    async def test_a_complete_answer_by_a_light_vector_is_checked_too(
        self, server: FakeServer, options: ClientOptions
    ) -> None:
        """All is held, but its order is judged by a vector that only comes near the model's own."""

        class LightEncoder(TermEncoder):
            async def encode(self, text: str) -> EncodedQuery:
                made = await super().encode(text)
                return dataclasses.replace(made, approximation=Approximation(distance=0.0, score=0.0))

        server.add(*(Stored(text=f"Dana is allergic to peanuts, note {number}") for number in range(3)))
        async with (
            AsyncClient(server.target, api_key="key", options=options, encoder=LightEncoder()) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            assert (await session.read(QUESTION)).decision == "complete"
            assert await self.reports(server, checked=True) == [False]
            asked = await session.read(QUESTION, min_version=server.version)
            assert asked.source == "cache"
            server.beating = False
            server.version += 1
            behind = await session.read(QUESTION, min_version=server.version)
            assert behind.source == "server"
            assert not any(request.HasField("query_vector") for request in server.calls["Search"]), (
                "a light vector is no query of the server's"
            )

    async def test_leaving_the_session_ends_a_check_and_its_read_is_reported(
        self, server: FakeServer, session: AsyncSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_search, "_CHECK_DEADLINE_SECONDS", 3600.0)
        server.hold["Search"] = asyncio.Event()
        await session.read(QUESTION, limit=3)
        await server.called("Search")
        async with asyncio.timeout(10):
            await session.__aexit__(None, None, None)
        assert await self.reports(server, checked=False) == []
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "precall-check"]

    async def test_a_share_of_zero_asks_for_nothing(
        self, server: FakeServer, options: ClientOptions, session: AsyncSession
    ) -> None:
        quiet = dataclasses.replace(options, live_check_share=0.0)
        async with (
            AsyncClient(server.target, api_key="key", options=quiet, encoder=TermEncoder()) as client,
            client.session(SCOPE) as another,
        ):
            assert await another.ready(10)
            another.observe("user", QUESTION)
            await until(lambda: another.state.pushes == 2)
            assert (await another.read(QUESTION, limit=3)).decision == "sure"
            assert await self.reports(server, checked=False) == []
        assert "Search" not in server.calls
