"""A language model's endpoint on loopback that says what a test wants, byte for byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ChatServer:
    """``answer``: the model's text. ``status`` and ``raw``, a whole body, take its place. ``held``: an answer
    begins and does not end before the event is set.
    """

    answer: str = "[]"
    status: int = 200
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    held: asyncio.Event | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    request_headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.paths.append(head[0])
            self.request_headers.append(headers)
            self.requests.append(json.loads(body) if body else {})
            self.arrived.set()
            content = self.raw
            if content is None:
                content = json.dumps({"choices": [{"message": {"content": self.answer}}]}).encode()
            said = {"content-length": str(len(content)), "connection": "close"} | self.headers
            lines = [f"HTTP/1.1 {self.status} said", *(f"{name}: {value}" for name, value in said.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode() + content[:1])
            await writer.drain()
            if self.held is not None:
                await self.held.wait()
            writer.write(content[1:])
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the caller hung up
        finally:
            writer.close()


@asynccontextmanager
async def chat_server(make: Callable[[], ChatServer] = ChatServer) -> AsyncIterator[ChatServer]:
    """Listens on loopback until the end of the block, and then lets go of what it holds."""
    served = make()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield served
    finally:
        if served.held is not None:
            served.held.set()
        server.close()
        await server.wait_closed()
