"""A TCP relay that stands for a long network link: it delays, stalls and breaks connections on demand."""

import asyncio
import socket
import struct
from enum import Enum

from precall.bench.delay_line import DelayLine

READ_BYTES = 64 * 1024
CAPACITY_BYTES = 16 * 1024 * 1024  # at 20 ms one way 800 MB a second, more than asyncio carries
END_OF_STREAM = b""


class _LinkState(Enum):
    OPEN = "open"
    PAUSED = "paused"
    CUT = "cut"


class _LinkBroken(Exception):
    """One side of a connection was reset, or is gone."""


class LinkRelay:
    """Relays TCP connections to ``target_host:target_port``, each direction delayed by half of ``rtt_ms``.

    Order is kept and bandwidth is not reduced: what is read at ``t`` is written at ``t + rtt/2`` while more
    is under way. End of stream (half-close) and resets reach the other side. TCP's own handshake is not
    delayed, and the event loop's timers round up by as much as 1 ms a direction, never down.

    ``pause`` lets bytes pile up as in a network that drops everything; ``cut`` resets all connections and
    refuses new ones; ``restore`` ends either. The port stays the same throughout.
    """

    def __init__(self, target_host: str, target_port: int, rtt_ms: float) -> None:
        if rtt_ms < 0:
            raise ValueError(f"rtt_ms must be 0 or more, not {rtt_ms}")
        self._target_host = target_host
        self._target_port = target_port
        self._delay_seconds = rtt_ms / 2000
        self._server: asyncio.Server | None = None
        self._state = _LinkState.OPEN
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str = "127.0.0.1") -> int:
        """Listen on a free port of ``host``; returns it, and it stands in ``port`` from then on."""
        if self._server is not None:
            raise RuntimeError("the relay is already started")
        self._server = await asyncio.start_server(self._accept, host, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    async def close(self) -> None:
        """Reset every connection and stop listening."""
        if self._server is None:
            return
        self._server.close()
        await self._reset_connections()
        await self._server.wait_closed()
        self._server = None

    def pause(self) -> None:
        """Stop delivering bytes; connections stay up and new ones are accepted, and stall."""
        self._state = _LinkState.PAUSED
        self._flowing.clear()

    async def cut(self) -> None:
        """Reset every connection, and each new one, until ``restore``."""
        self._state = _LinkState.CUT
        self._flowing.set()
        await self._reset_connections()

    def restore(self) -> None:
        """Deliver again: what piled up during a pause goes out at once."""
        self._state = _LinkState.OPEN
        self._flowing.set()

    async def _reset_connections(self) -> None:
        connections = tuple(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._state is _LinkState.CUT:
            _reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._relay(reader, writer)
        except asyncio.CancelledError:
            pass  # cut or closed: asyncio would report a cancelled connection as an error
        finally:
            self._connections.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection's life: open the other half, carry both directions, and end both alike."""
        target_writer: asyncio.StreamWriter | None = None
        ended_well = False
        try:
            target_reader, target_writer = await asyncio.open_connection(self._target_host, self._target_port)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._carry(reader, target_writer))
                directions.create_task(self._carry(target_reader, writer))
            ended_well = True
        except* (OSError, _LinkBroken):
            pass  # the reset below is how the other side learns of it
        finally:
            for side in (writer, target_writer):
                if side is None:
                    continue
                if ended_well:
                    side.close()
                else:
                    _reset(side)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction, until its end of stream has been delivered."""
        line: DelayLine[bytes] = DelayLine(self._delay_seconds, CAPACITY_BYTES)
        async with asyncio.TaskGroup() as halves:
            halves.create_task(self._collect(reader, line))
            halves.create_task(self._deliver(line, writer))

    async def _collect(self, reader: asyncio.StreamReader, line: DelayLine[bytes]) -> None:
        try:
            while chunk := await reader.read(READ_BYTES):
                await line.put(chunk)
        except OSError as error:
            # The news of a reset travels as long as anything else does.
            await asyncio.sleep(self._delay_seconds)
            await self._flowing.wait()
            raise _LinkBroken from error
        await line.put(END_OF_STREAM)

    async def _deliver(self, line: DelayLine[bytes], writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await line.get():
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
            await self._flowing.wait()
            writer.write_eof()
        except OSError as error:
            raise _LinkBroken from error


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN: the peer sees a broken connection and not an end."""
    if writer.transport.is_closing():
        return  # this is the side that broke
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
