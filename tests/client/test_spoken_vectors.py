"""What is said goes out with its vector, where that costs nobody a wait."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from fake_server import FakeServer
from pushes import SCOPE
from settable import FINGERPRINT, TermEncoder, term_vector, until

from precall.client import AsyncClient, ClientOptions, EncodedQuery
from precall.client.encoder_supply import EncoderSupply
from precall.client.spoken_vectors import PATIENCE_SECONDS, SpokenVectors
from precall.scoring.approximation import Approximation


class SlowEncoder(TermEncoder):
    """Takes ``seconds`` for a text."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def encode(self, text: str) -> EncodedQuery:
        await asyncio.sleep(self.seconds)
        return await super().encode(text)


class LightEncoder(TermEncoder):
    async def encode(self, text: str) -> EncodedQuery:
        made = await super().encode(text)
        return EncodedQuery(made.vector, approximation=Approximation(0.1, 0.01))


class CuttingEncoder(TermEncoder):
    async def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery((await super().encode(text)).vector, truncated=True)


class BrokenEncoder(TermEncoder):
    async def encode(self, text: str) -> EncodedQuery:
        await super().encode(text)
        raise RuntimeError("out of order")


class LoopElapsed:
    """The time of the loop that runs."""

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self.elapsed()


class Supply:
    def __init__(self, encoder: TermEncoder | None) -> None:
        self.fitting = encoder


def spoken(encoder: TermEncoder | None) -> SpokenVectors:
    return SpokenVectors(cast(EncoderSupply, Supply(encoder)), LoopElapsed())


async def test_the_server_gets_the_vector_of_what_is_said(server: FakeServer, client: AsyncClient) -> None:
    server.complete = False
    async with client.session(SCOPE, uuid.uuid4()) as session:
        session.observe("user", "about peanuts")
        (received,) = await server.called("ObserveTurn")
        sent = received.query_vector
        assert (sent.count, sent.model_fingerprint) == (1, FINGERPRINT)
        assert np.frombuffer(sent.data, "<f4") == pytest.approx(term_vector("about peanuts"))


async def test_where_all_is_held_nothing_is_predicted_and_nothing_sent(
    server: FakeServer, client: AsyncClient
) -> None:
    async with client.session(SCOPE, uuid.uuid4()) as session:
        await until(lambda: session.state.ready)
        session.observe("user", "about pea", partial=True)
        (received,) = await server.called("ObserveTurn")
        assert received.partial and not received.HasField("query_vector")


@pytest.mark.parametrize("encoder", [LightEncoder, CuttingEncoder, BrokenEncoder])
async def test_what_is_not_the_servers_own_vector_is_not_sent(
    server: FakeServer, options: ClientOptions, encoder: type[TermEncoder]
) -> None:
    async with (
        AsyncClient(server.target, api_key="key", options=options, encoder=encoder()) as client,
        client.session(SCOPE, uuid.uuid4()) as session,
    ):
        session.observe("user", "about peanuts")
        (received,) = await server.called("ObserveTurn")
        assert received.text == "about peanuts" and not received.HasField("query_vector")


async def test_an_encoder_of_another_model_sends_none(server: FakeServer, options: ClientOptions) -> None:
    encoder = TermEncoder("another")
    async with (
        AsyncClient(server.target, api_key="key", options=options, encoder=encoder) as client,
        client.session(SCOPE, uuid.uuid4()) as session,
    ):
        await until(lambda: session.state.ready)
        session.observe("user", "about peanuts")
        (received,) = await server.called("ObserveTurn")
        assert not received.HasField("query_vector") and not encoder.encoded


def test_without_an_encoder_there_is_none(run_on_virtual_clock: Callable[..., Any]) -> None:
    async def scenario() -> None:
        assert await spoken(None).of("peanuts", read_next=True) is None

    run_on_virtual_clock(scenario())


def test_a_light_encoder_is_asked_once(run_on_virtual_clock: Callable[..., Any]) -> None:
    async def scenario() -> None:
        encoder = LightEncoder()
        vectors = spoken(encoder)
        for text in ("a", "b"):
            assert await vectors.of(text, read_next=True) is None
        assert encoder.encoded == ["a"]

    run_on_virtual_clock(scenario())


def test_what_is_not_read_next_takes_half_of_the_time_at_most(
    run_on_virtual_clock: Callable[..., Any],
) -> None:
    async def scenario() -> None:
        vectors = spoken(SlowEncoder(0.01))
        first = asyncio.create_task(vectors.of("one", read_next=False))
        await asyncio.sleep(0.001)
        assert await vectors.of("two", read_next=False) is None, "another one is being made"
        assert await vectors.of("three", read_next=True) is not None, "its read would have it made anyway"
        assert await first is not None
        await asyncio.sleep(0.005)
        assert await vectors.of("four", read_next=False) is None, "it has to rest as long as it worked"
        await asyncio.sleep(0.01)
        assert await vectors.of("five", read_next=False) is not None

    run_on_virtual_clock(scenario())


def test_a_slow_encoder_keeps_no_observation_back(run_on_virtual_clock: Callable[..., Any]) -> None:
    async def scenario() -> None:
        began = asyncio.get_running_loop().time()
        assert await spoken(SlowEncoder(5.0)).of("one", read_next=True) is None
        assert asyncio.get_running_loop().time() - began == pytest.approx(PATIENCE_SECONDS)

    run_on_virtual_clock(scenario())


async def test_a_read_whose_query_was_cut_here_says_so_whoever_answers(
    server: FakeServer, options: ClientOptions
) -> None:
    """The server gets the vector of the beginning, and cannot know."""
    server.complete = False
    async with (
        AsyncClient(server.target, api_key="key", options=options, encoder=CuttingEncoder()) as client,
        client.session(SCOPE, uuid.uuid4()) as session,
    ):
        await until(lambda: session.state.ready)
        read = await session.read("about peanuts")
        assert (read.source, read.truncated) == ("server", True)
