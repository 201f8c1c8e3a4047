"""The outbox: order, replaced partials, bounds."""

import asyncio
import dataclasses
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fake_server import FakeServer, Refused
from pushes import SCOPE, Stored
from settable import TermEncoder, until

from precall.client import AsyncClient, AsyncSession, ClientOptions, FakeClient, InvalidInput, observation
from precall.client.observation import Observation
from precall.client.spoken_vectors import SpokenVector
from precall.proto import anticipation_pb2


@pytest.fixture
def options(options: ClientOptions) -> ClientOptions:
    return dataclasses.replace(options, max_pending_observations=4)


@pytest.fixture
async def session(server: FakeServer, client: AsyncClient) -> AsyncIterator[AsyncSession]:
    async with client.session(SCOPE) as opened:
        assert await opened.ready(10)
        yield opened


def texts(server: FakeServer) -> list[str]:
    return [each.text for each in server.calls["ObserveTurn"]]


async def test_turns_arrive_in_order_and_counted(server: FakeServer, session: AsyncSession) -> None:
    for number in range(4):
        session.observe("user" if number % 2 == 0 else "assistant", f"turn {number}")
    received = await server.called("ObserveTurn", 4)
    assert [each.text for each in received] == [f"turn {number}" for number in range(4)]
    assert [each.sequence for each in received] == [1, 2, 3, 4]
    assert received[1].role == anticipation_pb2.TURN_ROLE_ASSISTANT and received[0].HasField("said_time")
    assert len({each.turn_id for each in received}) == 4


async def test_a_newer_partial_replaces_one_that_was_not_sent(
    server: FakeServer, session: AsyncSession
) -> None:
    server.hold["ObserveTurn"] = asyncio.Event()
    session.observe("user", "so", partial=True)
    await server.called("ObserveTurn")
    for text in ("so about", "so about that", "so about that trip"):
        session.observe("user", text, partial=True)
    session.observe("user", "so about that trip to Pune")
    session.observe("user", "and", partial=True)
    assert session.state.pending_observations == 2
    server.hold["ObserveTurn"].set()
    received = await server.called("ObserveTurn", 3)
    assert texts(server) == ["so", "so about that trip to Pune", "and"]
    assert [each.partial for each in received] == [True, False, True]
    assert received[0].turn_id == received[1].turn_id != received[2].turn_id


async def test_a_partial_that_is_being_retried_gives_way_to_its_successor(
    server: FakeServer, session: AsyncSession
) -> None:
    server.hold["ObserveTurn"] = asyncio.Event()
    server.refuse["ObserveTurn"] = [Refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")]
    session.observe("user", "so", partial=True)
    await server.called("ObserveTurn")
    session.observe("user", "so it is")
    server.hold["ObserveTurn"].set()
    await server.called("ObserveTurn", 2)
    assert texts(server) == ["so", "so it is"]


async def test_a_turn_is_repeated_with_its_number_until_it_is_taken(
    server: FakeServer, session: AsyncSession
) -> None:
    server.refuse["ObserveTurn"] = [
        Refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", pushback_ms=1),
        Refused(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
    ]
    session.observe("user", "hello")
    session.observe("user", "there")
    received = await server.called("ObserveTurn", 5)
    assert [(each.sequence, each.text) for each in received] == [(1, "hello")] * 4 + [(2, "there")]


async def test_a_refused_turn_is_dropped_and_counted(server: FakeServer, session: AsyncSession) -> None:
    server.refuse["ObserveTurn"] = [Refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_TOO_LONG")]
    session.observe("user", "much too long")
    session.observe("user", "short")
    await server.called("ObserveTurn", 2)
    assert texts(server) == ["much too long", "short"] and session.state.dropped_turns == 1


async def test_a_full_outbox_drops_partials_first_and_turns_never_silently(
    server: FakeServer, session: AsyncSession, caplog: pytest.LogCaptureFixture
) -> None:
    server.hold["ObserveTurn"] = asyncio.Event()
    session.observe("user", "on its way")
    await server.called("ObserveTurn")
    session.observe("assistant", "half", partial=True)
    for number in range(4):
        session.observe("user", f"turn {number}")
    assert (session.state.dropped_partials, session.state.dropped_turns) == (1, 0)
    assert not caplog.records
    session.observe("user", "turn 4")
    assert session.state.dropped_turns == 1 and "dropped" in caplog.text
    server.hold["ObserveTurn"].set()
    await server.called("ObserveTurn", 5)
    assert texts(server) == ["on its way", "turn 1", "turn 2", "turn 3", "turn 4"]


async def test_what_was_used_is_told(server: FakeServer, session: AsyncSession) -> None:
    server.add(Stored(text="Dana is allergic to peanuts"))
    server.push(server.session, list(server.memories.values()))
    await until(lambda: session.state.items == 1)
    read = await session.read("peanuts")
    session.observe("assistant", "no peanuts for you", used=read)
    others = [str(uuid.uuid4()), str(uuid.uuid4())]
    session.observe("assistant", "none at all", used=others)
    first, second = await server.called("ObserveTurn", 2)
    assert list(first.used_memory_ids) == list(read.used_ids) != []
    assert list(second.used_memory_ids) == others


async def test_a_given_turn_id_is_kept(server: FakeServer, session: AsyncSession) -> None:
    session.observe("user", "hi", partial=True, turn_id="t-1")
    (received,) = await server.called("ObserveTurn")
    assert received.turn_id == "t-1"


async def test_bad_observations_are_refused_and_empty_partials_left_out(session: AsyncSession) -> None:
    with pytest.raises(InvalidInput, match="role"):
        session.observe("system", "hello")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="empty"):
        session.observe("user", " ")
    session.observe("user", "", partial=True)
    assert session.state.pending_observations == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": "a\ud800"}, "surrogate"),
        ({"text": 5}, "string"),
        ({"text": "a" * 20_001}, "20001 characters"),
        ({"text": "a" * 20_001, "partial": True}, "20001 characters"),
        ({"role": ["user"]}, "role"),
        ({"turn_id": 5}, "turn_id"),
        ({"turn_id": "\udcff"}, "turn_id"),
        ({"used": [5]}, r"used\[0\]"),
        ({"used": 5}, "used"),
        ({"used": "nope"}, "UUID"),
        ({"used": [str(uuid.uuid4()), "nope"]}, r"used\[1\] must be a UUID"),
        ({"used": [str(uuid.uuid4())] * 1001}, "1001"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_what_no_server_would_take_is_refused_and_the_next_turn_is_sent(
    server: FakeServer, session: AsyncSession, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        session.observe(**({"role": "user", "text": "hello"} | arguments))
    with FakeClient() as fake, fake.session(SCOPE) as faked, pytest.raises(InvalidInput, match=words):
        faked.observe(**({"role": "user", "text": "hello"} | arguments))
    session.observe("user", "hello")
    await server.called("ObserveTurn")
    assert texts(server) == ["hello"] and session.state.dropped_turns == 0


async def test_an_observation_that_cannot_be_sent_does_not_silence_the_session(
    server: FakeServer,
    session: AsyncSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    to_wire = observation._request

    def unfit(
        session_id: str, sequence: int, taken: Observation, vector: SpokenVector | None
    ) -> anticipation_pb2.ObserveTurnRequest:
        if taken.text == "unfit":
            raise ValueError("not for the wire")
        return to_wire(session_id, sequence, taken, vector)

    monkeypatch.setattr(observation, "_request", unfit)
    session.observe("user", "unfit")
    session.observe("user", "hello")
    (received,) = await server.called("ObserveTurn")
    assert received.text == "hello" and session.state.dropped_turns == 1
    assert "could not be sent" in caplog.text and "not for the wire" in caplog.text


async def test_what_the_user_says_is_encoded_before_it_is_asked(
    server: FakeServer, options: ClientOptions
) -> None:
    encoder = TermEncoder()
    async with (
        AsyncClient(server.target, api_key="key", options=options, encoder=encoder) as client,
        client.session(SCOPE) as session,
    ):
        session.observe("user", "so about that trip")
        session.observe("assistant", "yes?")
        assert encoder.warmed == ["so about that trip"]
