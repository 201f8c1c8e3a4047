"""The one Watch stream of the process: kept open, its events applied in order, its leases renewed."""

import asyncio
import logging
import uuid
from typing import Final, Protocol

import grpc.aio

from precall.client import convert
from precall.client.background import start_background
from precall.client.backoff import Backoff
from precall.client.clock import Clock
from precall.client.errors import NotFound, PrecallError, Unavailable, from_rpc_error
from precall.client.methods import RENEW_LEASE, WATCH
from precall.client.options import ClientOptions
from precall.client.stream import Stream
from precall.client.transport import Transport
from precall.client.version import CLIENT_VERSION
from precall.proto import anticipation_pb2

_log = logging.getLogger(__name__)

_OPENING_SECONDS: Final = 10.0
_MAX_RENEWALS_IN_FLIGHT: Final = 4


class StreamListener(Protocol):
    """One session's ear on the stream: called on the event loop, in the order of events; must not block."""

    @property
    def session_id(self) -> str: ...

    def stream_opened(self, stream: Stream) -> None:
        """A connection stands; the server knows nothing of this session on it yet."""

    def pushed(self, stream: Stream, push: anticipation_pb2.Push) -> None: ...

    def invalidated(self, invalidation: anticipation_pb2.Invalidation) -> None: ...

    def confirmed(self, stream: Stream, version: int) -> None:
        """Everything up to ``version`` has been sent on ``stream``."""

    def ended(self, stream: Stream, reason: str) -> None:
        """The server let go of the session."""


class Watcher:
    """Reconnects for ever with backoff, a new stream id each time.

    The order on every event: apply it to the caches, then note its sequence, then (on a heartbeat, when
    someone waits for it, or when a heartbeat's time has passed) renew the lease with that sequence. So a
    renewal never claims what is not applied.
    A gap in the sequence, silence, or a server that does not know the stream means a new connection.
    """

    def __init__(self, transport: Transport, options: ClientOptions, clock: Clock) -> None:
        self._transport = transport
        self._options = options
        self._clock = clock
        self._listeners: dict[str, StreamListener] = {}
        self._stream: Stream | None = None
        self._model_fingerprint = ""
        self._opened = asyncio.Event()
        self._call: (
            grpc.aio.UnaryStreamCall[anticipation_pb2.WatchRequest, anticipation_pb2.WatchEvent] | None
        ) = None
        self._task: asyncio.Task[None] | None = None
        self._renewals: set[asyncio.Task[None]] = set()
        self._renewal_waits = False

    @property
    def stream(self) -> Stream | None:
        """The connection that stands now; it may be silent (see ``Stream.alive``)."""
        return self._stream

    @property
    def alive(self) -> bool:
        return self._stream is not None and self._stream.alive

    @property
    def model_fingerprint(self) -> str:
        """Of the model that served at the last connection; empty before the first one."""
        return self._model_fingerprint

    async def opened(self) -> Stream:
        """Wait for a connection."""
        while self._stream is None:
            await self._opened.wait()
        return self._stream

    def start(self) -> None:
        self._task = start_background(self._run(), name="precall-watch")

    async def close(self) -> None:
        tasks = [task for task in (self._task, *self._renewals) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lose_stream()

    def add(self, listener: StreamListener) -> None:
        self._listeners[listener.session_id] = listener
        if self._stream is not None:
            listener.stream_opened(self._stream)

    def remove(self, listener: StreamListener) -> None:
        self._listeners.pop(listener.session_id, None)

    async def _run(self) -> None:
        backoff = Backoff(self._options.reconnect_initial_seconds, self._options.reconnect_maximum_seconds)
        failure = ""
        while True:
            try:
                await self._follow_one_stream(backoff)
            except PrecallError as error:
                if error.reason != failure:  # said once, not at every try
                    self._log_end(error)
                failure = error.reason
            except Exception:
                # A fault in applying an event must not end anticipation for good: begin anew.
                _log.exception("an event of the stream could not be applied")
            finally:
                self._lose_stream()
            await asyncio.sleep(backoff.next())

    def _log_end(self, error: PrecallError) -> None:
        """An outage passes by itself; without a session nobody misses the stream (an admin key gets none)."""
        harmless = isinstance(error, Unavailable) or not self._listeners
        level = logging.INFO if harmless else logging.WARNING
        _log.log(level, "the stream to the server ended (%s: %s)", error.reason, error.message)

    async def _follow_one_stream(self, backoff: Backoff) -> None:
        """From opening a stream to its end, which is always an error of the client's tree."""
        stream_id = str(uuid.uuid4())
        self._call = self._transport.stream(
            WATCH, anticipation_pb2.WatchRequest(stream_id=stream_id, client_version=CLIENT_VERSION)
        )
        first = await self._next_event(self._call, _OPENING_SECONDS)
        if first.sequence != 1 or first.WhichOneof("event") != "opened":
            raise Unavailable("the stream did not begin with StreamOpened: is this a precall server?")
        stream = Stream(stream_id, first.opened, clock=self._clock)
        stream.note_applied(first.sequence)
        self._stream = stream
        self._model_fingerprint = stream.model_fingerprint
        self._opened.set()
        backoff.reset()
        self._renew_soon(stream)  # the cache serves nothing before the first lease
        for listener in tuple(self._listeners.values()):
            listener.stream_opened(stream)
        while True:
            event = await self._next_event(self._call, stream.silence_seconds)
            if event.sequence != stream.applied_sequence + 1:
                raise Unavailable(
                    f"event {event.sequence} of the stream came after {stream.applied_sequence}"
                )
            self._apply(stream, event)
            stream.note_applied(event.sequence)
            if event.confirm or event.HasField("heartbeat") or stream.renewal_due:
                self._renew_soon(stream)
            if event.HasField("draining"):
                raise Unavailable("the server is draining", reason="DRAINING")

    async def _next_event(
        self,
        call: grpc.aio.UnaryStreamCall[anticipation_pb2.WatchRequest, anticipation_pb2.WatchEvent],
        silence_seconds: float,
    ) -> anticipation_pb2.WatchEvent:
        try:
            async with asyncio.timeout(silence_seconds):
                event = await call.read()
        except TimeoutError:
            raise Unavailable(f"the stream was silent for {silence_seconds:g} s") from None
        except grpc.aio.AioRpcError as failure:
            raise from_rpc_error(failure) from failure
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Unavailable("the stream was given up") from None  # the call was cancelled, not this task
        if not isinstance(event, anticipation_pb2.WatchEvent):
            raise Unavailable("the server closed the stream")
        return event

    def _apply(self, stream: Stream, event: anticipation_pb2.WatchEvent) -> None:
        """Kinds newer than this client are skipped."""
        kind = event.WhichOneof("event")
        if kind == "push":
            listener = self._listeners.get(event.push.session_id)
            if listener is not None:
                listener.pushed(stream, event.push)
        elif kind == "invalidation":
            for listener in tuple(self._listeners.values()):
                listener.invalidated(event.invalidation)
        elif kind == "heartbeat":
            if event.heartbeat.HasField("server_time"):
                stream.note_server_time(convert.unix_seconds(event.heartbeat.server_time))
            for listener in tuple(self._listeners.values()):
                listener.confirmed(stream, event.heartbeat.version)
        elif kind == "session_ended":
            listener = self._listeners.get(event.session_ended.session_id)
            if listener is not None:
                listener.ended(stream, event.session_ended.reason)

    def _renew_soon(self, stream: Stream) -> None:
        """At once, unless many are on their way: then one more follows them with the newest sequence."""
        if len(self._renewals) >= _MAX_RENEWALS_IN_FLIGHT:
            self._renewal_waits = True
            return
        task = start_background(self._renew(stream), name="precall-renew-lease")
        self._renewals.add(task)
        task.add_done_callback(self._renewal_done)

    def _renewal_done(self, task: asyncio.Task[None]) -> None:
        self._renewals.discard(task)
        if self._renewal_waits and self._stream is not None:
            self._renewal_waits = False
            self._renew_soon(self._stream)

    async def _renew(self, stream: Stream) -> None:
        request = anticipation_pb2.RenewLeaseRequest(
            stream_id=stream.stream_id, applied_sequence=stream.applied_sequence
        )
        sent_at = stream.note_renewal_sent()
        try:
            response = await self._transport.call(
                RENEW_LEASE, request, deadline_seconds=stream.silence_seconds, retry=False
            )
        except NotFound:
            if self._stream is stream:
                self._give_up_call()
        except PrecallError as error:
            _log.debug("a lease was not renewed (%s); the next heartbeat tries again", error.reason)
        else:
            stream.note_renewed(sent_at, convert.seconds_from_wire(response.lease))

    def _give_up_call(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def _lose_stream(self) -> None:
        self._opened.clear()
        self._give_up_call()
        self._call = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None
