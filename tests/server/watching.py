"""A Watch stream and the calls that belong to it."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
from harness import Caller, scope

from precall.proto import anticipation_pb2

USER = anticipation_pb2.TURN_ROLE_USER


@dataclass
class Watching:
    """One stream and what came down it so far."""

    caller: Caller
    stream_id: str
    call: Any
    events: list[Any]

    async def next(self, kind: str) -> Any:
        """The next event of a kind, heartbeats and others before it kept in ``events``."""
        async with asyncio.timeout(5):
            while True:
                event = await self.call.read()
                assert event is not grpc.aio.EOF, f"the stream ended before a {kind}"
                self.events.append(event)
                if event.WhichOneof("event") == kind:
                    return event

    async def open_session(self, levels: dict[str, str], **fields: Any) -> str:
        session_id = str(uuid.uuid4())
        await self.caller(
            "AnticipationService/OpenSession",
            stream_id=self.stream_id,
            session_id=session_id,
            scope=scope(levels),
            **fields,
        )
        return session_id

    async def observe(self, session_id: str, sequence: int, text: str, **fields: Any) -> Any:
        return await self.caller(
            "AnticipationService/ObserveTurn",
            session_id=session_id,
            sequence=sequence,
            role=USER,
            text=text,
            **fields,
        )

    async def renew(self) -> float:
        reply = await self.caller(
            "AnticipationService/RenewLease",
            stream_id=self.stream_id,
            applied_sequence=self.events[-1].sequence,
        )
        return reply.lease.ToMilliseconds() / 1000


@asynccontextmanager
async def watching(caller: Caller) -> AsyncIterator[Watching]:
    stream_id = str(uuid.uuid4())
    call = caller.stream("AnticipationService/Watch", stream_id=stream_id)
    watch = Watching(caller, stream_id, call, [])
    await watch.next("opened")
    try:
        yield watch
    finally:
        call.cancel()
