"""The network between real clients and the simulated server: delays, losses, repeats, breaks."""

import asyncio
import random
from collections.abc import AsyncGenerator
from typing import Any, Final

import grpc.aio

from precall.client.errors import DeadlineExceeded, PrecallError, Unavailable
from precall.client.methods import Method, RequestT, ResponseT
from precall.proto import anticipation_pb2
from tests.simulation.server import Connection, SimulatedServer

_DOUBLED: Final = 0.05
"""Share of calls that the server gets twice."""
_NOTICED_AFTER: Final = (0.0, 0.2, 3.0)
"""Seconds at most until the server learns that a connection is gone; perhaps the client is back by then."""


class Link:
    """What one client's packets meet. Seconds at most: ``slowness`` of an event of the stream, ``latency`` of
    a call, each way. ``loss``: share of calls that are lost on one way.
    """

    def __init__(self, server: SimulatedServer, tenant_id: str, chance: random.Random) -> None:
        self.server = server
        self.tenant_id = tenant_id
        self.chance = chance
        self.slowness = chance.choice((0.01, 0.1, 0.8))
        self.latency = chance.choice((0.02, 0.1, 0.8))
        self.loss = chance.choice((0.0, 0.02, 0.2))
        self.calls: set[SimulatedStream] = set()
        self._asleep_until = 0.0
        self._cut_until = 0.0
        self._dead = False

        server.links.append(self)

    def another(self) -> "Link":
        """For the next process at the same place."""
        return Link(self.server, self.tenant_id, self.chance)

    def break_streams(self) -> None:
        for call in tuple(self.calls):
            call.fail("the connection broke")

    def die(self) -> None:
        """The process is gone: nothing comes and nothing goes any more, and nobody says good-bye."""
        self._dead = True
        self.break_streams()

    def suspend(self, seconds: float) -> None:
        """The process sleeps: what comes meanwhile is handed to it when it wakes."""
        self._asleep_until = asyncio.get_running_loop().time() + seconds

    def cut(self, seconds: float) -> None:
        """Nothing passes in either direction, and nobody is told."""
        self._cut_until = asyncio.get_running_loop().time() + seconds

    @property
    def asleep(self) -> bool:
        return asyncio.get_running_loop().time() < self._asleep_until

    @property
    def is_cut(self) -> bool:
        return asyncio.get_running_loop().time() < self._cut_until

    def repeat_later(self, method: Method[Any, Any], request: Any) -> None:
        """The server gets a call a second time, whose answer goes nowhere."""

        def repeat() -> None:
            if self.server.up:
                handled = asyncio.ensure_future(self.server.handle(self.tenant_id, method, request))
                handled.add_done_callback(_retrieve)

        asyncio.get_running_loop().call_later(self.chance.uniform(0, 1.0), repeat)

    async def travel(self, longest: float) -> None:
        await asyncio.sleep(self.chance.uniform(0, longest))
        if self.asleep:
            await asyncio.sleep(self._asleep_until - asyncio.get_running_loop().time())
        if self._dead:
            raise Unavailable("the process is gone")

    def lose(self) -> None:
        if not self.server.up or self._dead or self.is_cut or self.chance.random() < self.loss:
            raise Unavailable("the network lost it")


class SimulatedTransport:
    """Takes the place of ``precall.client.transport.Transport``."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def open(self) -> None: ...

    async def close(self) -> None:
        self._link.break_streams()

    async def call(
        self,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        *,
        deadline_seconds: float,
        retry: bool = True,
    ) -> ResponseT:
        try:
            async with asyncio.timeout(max(deadline_seconds, 0.0)):
                while True:
                    try:
                        return await self._once(method, request)
                    except Unavailable:
                        if not retry:
                            raise
                    await asyncio.sleep(self._link.chance.uniform(0.02, 0.1))
        except TimeoutError:
            raise DeadlineExceeded("the simulated network took too long") from None

    async def _once(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """A call may be lost before the server took it, or after, and then it was taken all the same."""
        link = self._link
        await link.travel(link.latency)
        link.lose()
        handled = asyncio.ensure_future(link.server.handle(link.tenant_id, method, request))
        handled.add_done_callback(_retrieve)
        if link.chance.random() < _DOUBLED:
            link.repeat_later(method, request)
        response: Any = await asyncio.shield(handled)  # a caller who hangs up does not undo it
        await link.travel(link.latency)
        link.lose()
        return method.response.FromString(response.SerializeToString())

    def stream(self, method: Method[RequestT, ResponseT], request: RequestT) -> "SimulatedStream":
        assert isinstance(request, anticipation_pb2.WatchRequest), method
        return SimulatedStream(self._link, request.stream_id)

    async def messages(
        self, method: Method[RequestT, ResponseT], request: RequestT
    ) -> AsyncGenerator[ResponseT, None]:
        raise Unavailable("the simulated server streams nothing but events")
        yield  # makes it a generator


class SimulatedStream:
    """A Watch call."""

    def __init__(self, link: Link, stream_id: str) -> None:
        self._link = link
        self._arrived: asyncio.Queue[anticipation_pb2.WatchEvent | BaseException | None] = asyncio.Queue()
        self._connection: Connection | None = None
        self._noticed_after = link.chance.choice(_NOTICED_AFTER)
        self._pump = asyncio.create_task(self._carry(stream_id))
        link.calls.add(self)

    async def read(self) -> Any:
        event = await self._arrived.get()
        if isinstance(event, BaseException):
            raise event
        return grpc.aio.EOF if event is None else event

    def cancel(self) -> None:
        self._end(asyncio.CancelledError())

    def fail(self, reason: str) -> None:
        self._end(Unavailable(reason))

    def _end(self, error: BaseException) -> None:
        if self in self._link.calls:
            self._link.calls.discard(self)
            self._pump.cancel()
            self._arrived.put_nowait(error)

    async def _carry(self, stream_id: str) -> None:
        link = self._link
        try:
            await link.travel(0.1)
            link.lose()
            self._connection = link.server.connect(link.tenant_id, stream_id)
            while (event := await self._connection.next()) is not None:
                await link.travel(link.slowness)
                if link.is_cut:  # the rest of the stream never comes: silence tells the client
                    return
                self._arrived.put_nowait(anticipation_pb2.WatchEvent.FromString(event.SerializeToString()))
            self._arrived.put_nowait(None)
        except PrecallError as error:
            self._arrived.put_nowait(error)
        finally:
            if self._connection is not None:
                loop = asyncio.get_running_loop()
                loop.call_later(link.chance.uniform(0, self._noticed_after), self._connection.close)


def _retrieve(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()
