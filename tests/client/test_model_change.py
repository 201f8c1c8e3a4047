"""The server changes the model under open sessions: they come back by themselves, and no read raises."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator

import grpc
import pytest
from fake_server import FakeServer, Refused
from pushes import SCOPE, Stored
from settable import FINGERPRINT, TermEncoder, term_vector, until

from precall.client import (
    AsyncClient,
    AsyncSession,
    ClientOptions,
    EncodedQuery,
    LocalEncoding,
    ModelChanged,
    Unavailable,
    encoder_supply,
    onnx_model,
)
from precall.client.circuit import Circuit
from precall.client.clock import SystemClock
from precall.client.encoder import LocalEncoder
from precall.client.encoder_store import StoredEncoder
from precall.proto import retrieval_pb2

NEXT = "next-model"
PEANUTS = Stored(text="Dana is allergic to peanuts")
QUESTION = "does Dana have an allergy to peanuts"


def change_model(server: FakeServer, fingerprint: str) -> None:
    """As the real server does it: the streams end, and the next ones name another model."""
    server.fingerprint = fingerprint
    server.break_streams()


def searches(server: FakeServer) -> list[retrieval_pb2.SearchRequest]:
    return server.calls.get("Search", [])


class TestBroughtEncoder:
    """One that the user brought is of the first model for good."""

    @pytest.fixture
    def encoder(self) -> TermEncoder:
        return TermEncoder()

    @pytest.fixture
    async def session(
        self, server: FakeServer, options: ClientOptions, encoder: TermEncoder
    ) -> AsyncIterator[AsyncSession]:
        server.add(PEANUTS)
        async with (
            AsyncClient(server.target, api_key="key", options=options, encoder=encoder) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            yield session

    async def test_while_it_does_not_fit_text_is_sent_and_no_vector(
        self, server: FakeServer, session: AsyncSession, encoder: TermEncoder
    ) -> None:
        assert (await session.read(QUESTION)).decision == "complete"
        change_model(server, NEXT)
        await until(lambda: session.state.pushes == 2)
        encoded, warmed = len(encoder.encoded), len(encoder.warmed)
        session.observe("user", QUESTION)
        read = await session.read(QUESTION)
        assert (read.source, read.decision, read.status) == ("server", "unencoded", "hit")
        (request,) = searches(server)
        assert not request.HasField("query_vector") and request.query == QUESTION
        assert (len(encoder.encoded), len(encoder.warmed)) == (encoded, warmed)
        assert session.state.items == 1 and not session.state.encoder_ready
        assert (await session.search(QUESTION)).model_fingerprint == NEXT

    async def test_it_serves_again_when_the_change_is_taken_back(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        change_model(server, NEXT)
        await until(lambda: session.state.pushes == 2)
        change_model(server, FINGERPRINT)
        await until(lambda: session.state.pushes == 3)
        read = await session.read(QUESTION)
        assert (read.source, read.decision) == ("cache", "complete")
        assert session.state.encoder_ready and not searches(server)

    async def test_a_vector_that_comes_too_late_is_followed_by_the_text(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.fingerprint = NEXT  # the stream has not ended yet
        read = await session.read(QUESTION, min_version=server.version + 1, deadline_ms=0)
        assert read.status == "degraded"
        server.add(Stored(text="Dana likes boats"))
        read = await session.read(QUESTION, min_version=server.version)
        assert (read.source, read.status) == ("server", "hit")
        assert [request.HasField("query_vector") for request in searches(server)] == [True, False]

    async def test_a_vector_whose_model_is_given_up_under_way_is_followed_by_the_text(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.hold["Watch"] = asyncio.Event()
        server.break_streams()
        await until(lambda: not session.state.connected)  # so that no call is tried again by itself
        server.refuse["Search"] = [Refused(grpc.StatusCode.UNAVAILABLE, "MODEL_CHANGED")]
        read = await session.read(QUESTION)
        assert (read.source, read.status) == ("server", "hit")
        assert [request.HasField("query_vector") for request in searches(server)] == [True, False]

    async def test_until_the_first_push_the_server_answers_and_in_need_what_is_held(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.pushes_on_open = False
        change_model(server, NEXT)
        await server.called("OpenSession", 2)
        read = await session.read(QUESTION)
        assert (read.source, read.decision, read.status) == ("server", "stale", "hit")
        assert not searches(server)[0].HasField("query_vector")
        alone = await session.read(QUESTION, deadline_ms=0)
        assert (alone.source, alone.status) == ("cache", "degraded")
        # The vector held is the old model's, and so is the query's: their nearness is a true one.
        assert [item.memory.id for item in alone.items] == [PEANUTS.id] and alone.items[0].score.dense > 0.1

    async def test_reads_that_run_all_the_while_are_all_answered(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        reads = []
        done = asyncio.Event()

        async def keep_reading() -> None:
            while not done.is_set():
                reads.append(await session.read(QUESTION))
                await asyncio.sleep(0)

        readers = [asyncio.create_task(keep_reading()) for _ in range(3)]
        for pushes, fingerprint in enumerate((NEXT, FINGERPRINT, NEXT), 2):
            change_model(server, fingerprint)
            await until(lambda pushes=pushes: session.state.pushes >= pushes)
        done.set()
        await asyncio.gather(*readers)
        assert {read.status for read in reads} == {"hit"}
        assert all([item.memory.id for item in read.items] == [PEANUTS.id] for read in reads)


class Model:
    """A ``TextModel`` of whatever the server published; ``gate`` holds its answers back."""

    gate: threading.Event | None = None

    def __init__(self, stored: StoredEncoder, *, threads: int) -> None:
        self.model_fingerprint = stored.model_fingerprint

    def encode(self, text: str) -> EncodedQuery:
        if self.gate is not None and text != "warm up":
            assert self.gate.wait(20)
        return EncodedQuery(term_vector(text))


def publish(server: FakeServer, fingerprint: str) -> None:
    manifest = server.encoder_manifest
    manifest.model_fingerprint, manifest.encoder_fingerprint = fingerprint, f"encoder-of-{fingerprint}"
    manifest.format = 1


class TestPublishedEncoder:
    @pytest.fixture
    async def session(
        self, server: FakeServer, options: ClientOptions, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[AsyncSession]:
        monkeypatch.setattr(onnx_model, "require_local_extra", lambda: None)
        monkeypatch.setattr(encoder_supply, "OnnxModel", Model)
        publish(server, FINGERPRINT)
        server.add(PEANUTS)
        wanted = dataclasses.replace(options, local_encoding=LocalEncoding.REQUIRED)
        async with (
            AsyncClient(server.target, api_key="key", options=wanted) as client,
            client.session(SCOPE) as session,
        ):
            assert await session.ready(10)
            yield session

    async def test_the_next_models_encoder_is_fetched(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        assert (await session.read(QUESTION)).decision == "complete"
        server.hold["GetClientEncoder"] = asyncio.Event()
        publish(server, NEXT)
        change_model(server, NEXT)
        await server.called("GetClientEncoder", 2)
        await until(lambda: session.state.pushes == 2)
        waiting = asyncio.create_task(session.ready(10))
        read = await session.read(QUESTION)
        assert (read.source, read.decision) == ("server", "unencoded")
        assert not searches(server)[-1].HasField("query_vector")
        assert not waiting.done() and not session.state.encoder_ready
        server.hold.pop("GetClientEncoder").set()
        assert await waiting and session.state.encoder_ready
        read = await session.read(QUESTION)
        assert (read.source, read.decision) == ("cache", "complete")
        asked = [request.model_fingerprint for request in server.calls["GetClientEncoder"]]
        assert asked == [FINGERPRINT, NEXT]

    async def test_of_a_model_without_one_the_server_embeds_for_good(
        self, server: FakeServer, session: AsyncSession
    ) -> None:
        server.refuse["GetClientEncoder"] = [Refused(grpc.StatusCode.UNIMPLEMENTED, "NOT_SUPPORTED")]
        change_model(server, NEXT)
        await server.called("GetClientEncoder", 2)
        await until(lambda: session.state.pushes == 2)
        assert await session.ready(10)
        assert (await session.read(QUESTION)).decision == "unencoded"
        assert len(server.calls["GetClientEncoder"]) == 2

        change_model(server, FINGERPRINT)  # and the one that it had is there still
        await until(lambda: session.state.pushes == 3)
        assert (await session.read(QUESTION)).decision == "complete"
        assert len(server.calls["GetClientEncoder"]) == 2

    async def test_a_read_that_waits_for_the_old_encoder_is_answered(
        self, server: FakeServer, session: AsyncSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = threading.Event()
        monkeypatch.setattr(Model, "gate", gate)
        reads = [asyncio.create_task(session.read(text)) for text in (QUESTION, "Dana and peanuts")]
        await asyncio.sleep(0)
        publish(server, NEXT)
        change_model(server, NEXT)
        await until(lambda: session.state.encoder_ready and session.state.pushes == 2)
        gate.set()
        for read in await asyncio.gather(*reads):
            assert (read.source, read.status) == ("server", "hit")
        assert not any(request.HasField("query_vector") for request in searches(server))


def test_a_model_that_changed_is_an_answer_and_no_outage() -> None:
    circuit = Circuit(SystemClock())
    circuit.note_failure(ModelChanged("gave it up"))
    assert not circuit.is_open(connected=False)
    circuit.note_failure(Unavailable("nobody is there"))
    assert circuit.is_open(connected=False)


async def test_an_encoder_that_is_put_away_answers_what_it_took() -> None:
    class Waiting:
        model_fingerprint = FINGERPRINT
        gate = threading.Event()

        def encode(self, text: str) -> EncodedQuery:
            assert self.gate.wait(20)
            return EncodedQuery(term_vector(text))

    encoder = LocalEncoder(Waiting(), remembered=4)
    both = asyncio.gather(encoder.encode("running"), encoder.encode("waiting"))
    await asyncio.sleep(0)
    encoder.close()
    Waiting.gate.set()
    assert len(await both) == 2
