import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from precall.bench.relay import LinkRelay

RTT_MS = 40
TIMER_TOLERANCE_SECONDS = 0.001


@dataclass
class EchoServer:
    """Answers every chunk with itself, and end of stream with a farewell."""

    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        ending = "end of stream"
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
            writer.write(b"farewell")
        except ConnectionError:
            ending = "reset"
        self.endings.append(ending)
        self.ended.set()
        writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    echo = EchoServer()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()
    for writer in echo.writers:
        writer.transport.abort()
    await server.wait_closed()


@pytest.fixture
async def relay(echo: EchoServer) -> AsyncIterator[LinkRelay]:
    relay = LinkRelay("127.0.0.1", echo.port, RTT_MS)
    relay.port = await relay.start()  # type: ignore[attr-defined]
    yield relay
    await relay.close()


@contextlib.asynccontextmanager
async def connected(relay: LinkRelay) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)  # type: ignore[attr-defined]
    yield reader, writer
    writer.transport.abort()


async def test_a_round_trip_takes_at_least_the_round_trip_time(relay):
    async with connected(relay) as (reader, writer):
        for _ in range(3):
            sent_at = time.monotonic()
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            assert time.monotonic() - sent_at >= RTT_MS / 1000 - TIMER_TOLERANCE_SECONDS


async def test_a_large_stream_arrives_whole_and_in_order(relay):
    content = b"".join(number.to_bytes(4, "big") for number in range(500_000))
    async with connected(relay) as (reader, writer):
        writer.write(content)
        assert await reader.readexactly(len(content)) == content


async def test_end_of_stream_goes_through_and_the_other_direction_stays_open(relay, echo):
    async with connected(relay) as (reader, writer):
        writer.write(b"last words ")
        writer.write_eof()
        assert await reader.read() == b"last words farewell"
    assert echo.endings == ["end of stream"]


async def test_a_reset_by_the_server_reaches_the_client(relay, echo):
    async with connected(relay) as (reader, writer):
        writer.write(b"ping")
        await reader.readexactly(4)
        reset(echo.writers[0])
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_a_reset_by_the_client_reaches_the_server(relay, echo):
    async with connected(relay) as (reader, writer):
        writer.write(b"ping")
        await reader.readexactly(4)
        reset(writer)
        await asyncio.wait_for(echo.ended.wait(), 5)
    assert echo.endings == ["reset"]


async def test_an_absent_target_is_a_reset():
    relay = LinkRelay("127.0.0.1", 1, 0)
    port = await relay.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    await relay.close()


async def test_a_pause_holds_bytes_back_and_loses_none(relay, echo):
    async with connected(relay) as (reader, writer):
        writer.write(b"before")
        await reader.readexactly(6)
        relay.pause()
        writer.write(b"during")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 3 * RTT_MS / 1000)
        relay.restore()
        assert await reader.readexactly(6) == b"during"


async def test_a_cut_resets_old_and_new_connections_until_it_is_restored(relay, echo):
    async with connected(relay) as (reader, writer):
        writer.write(b"ping")
        await reader.readexactly(4)
        await relay.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
    async with connected(relay) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read()
    relay.restore()
    async with connected(relay) as (reader, writer):
        writer.write(b"pong")
        assert await reader.readexactly(4) == b"pong"


async def test_close_leaves_no_connection_and_may_be_repeated(relay):
    async with connected(relay) as (reader, writer):
        writer.write(b"ping")
        await reader.readexactly(4)
        await relay.close()
        with pytest.raises(ConnectionResetError):
            await reader.read()
    await relay.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", relay.port)


async def test_a_negative_round_trip_time_is_refused():
    with pytest.raises(ValueError, match="rtt_ms must be 0 or more"):
        LinkRelay("127.0.0.1", 1, -1)


def reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
