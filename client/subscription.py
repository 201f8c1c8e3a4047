"""One session's place on the stream: opened on every connection anew, its cache filled by pushes."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from precall.client import convert
from precall.client.background import start_background
from precall.client.backoff import Backoff
from precall.client.cache import SessionCache
from precall.client.clock import Clock
from precall.client.errors import NotFound, PrecallError, Unavailable
from precall.client.methods import CLOSE_SESSION, OPEN_SESSION
from precall.client.options import ClientOptions
from precall.client.reports import Reporter
from precall.client.resumption import Resumption
from precall.client.stream import Stream
from precall.client.transport import Transport
from precall.client.watcher import Watcher
from precall.client.written_version import WrittenVersion
from precall.proto import anticipation_pb2, common_pb2

_log = logging.getLogger(__name__)

_OBSERVATIONS_REMEMBERED: Final = 256


class Subscription:
    """Implements ``StreamListener``. Two questions of every read are answered here:

    ``in_step``: the connection stands, is heard from, and what the cache holds came over it; so whatever
    changed on the server has been said. ``servable``: the lease under which the held items came still runs;
    after that nothing held may be shown to anybody, whatever the outage.
    """

    def __init__(
        self,
        session_id: str,
        scope: Mapping[str, str],
        conversation_id: str,
        *,
        transport: Transport,
        watcher: Watcher,
        reporter: Reporter,
        options: ClientOptions,
        clock: Clock,
    ) -> None:
        self.cache = SessionCache(scope, max_items=options.max_items, max_bytes=options.max_bytes)
        self.written = WrittenVersion()
        self._resumption = Resumption(self.cache)
        self.pushes = 0
        self.refused_items = 0
        self.last_lead_seconds: float | None = None
        self._session_id = session_id
        self._scope = convert.scope_to_wire(scope)
        self._conversation_id = conversation_id
        self._transport = transport
        self._watcher = watcher
        self._reporter = reporter
        self._options = options
        self._clock = clock
        self._source: Stream | None = None  # the connection that what is held came over
        self._opened_on: Stream | None = None
        self._opened = asyncio.Event()
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._refreshing = False
        self._attempts = 0
        self._task: asyncio.Task[None] | None = None
        self._observed_at: OrderedDict[int, float] = OrderedDict()

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def in_step(self) -> bool:
        return self._source is not None and self._source is self._watcher.stream and self._source.alive

    @property
    def servable(self) -> bool:
        return self._source is not None and self._source.lease.fresh

    @property
    def lease_seconds(self) -> float:
        return 0.0 if self._source is None else self._source.lease.remaining

    @property
    def connected(self) -> bool:
        """The connection stands and is heard from."""
        return self._watcher.alive

    @property
    def is_open(self) -> bool:
        """The server knows the session on the present connection."""
        return self._opened_on is not None and self._opened_on is self._watcher.stream

    @property
    def held_fingerprint(self) -> str:
        """Of the model of the vectors held; empty while nothing is held."""
        return "" if self._source is None else self._source.model_fingerprint

    @property
    def server_fingerprint(self) -> str:
        """Of the model that the server has, as far as is known; empty before the first connection.

        Another one than that of the vectors held, from a change of the model to the first push after it.
        """
        return self._watcher.model_fingerprint

    @property
    def staleness_seconds(self) -> float:
        """Since the server was last heard from on the connection that filled the cache."""
        return 0.0 if self._source is None else self._source.seconds_since_heard

    @property
    def server_now(self) -> float:
        """Unix seconds by the server's clock."""
        stream = self._source or self._watcher.stream
        return self._clock.wall() if stream is None else stream.server_now

    def start(self) -> None:
        self._task = start_background(self._keep_open(), name="precall-open-session")
        self._watcher.add(self)

    async def close(self) -> None:
        """Hold nothing any more, and tell the server, which then waits for this session no longer."""
        self._watcher.remove(self)
        connected = self.connected  # the session may be open there although the reply is not here yet
        self._forget_held()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if connected:
            try:
                await self._transport.call(
                    CLOSE_SESSION,
                    anticipation_pb2.CloseSessionRequest(session_id=self._session_id),
                    deadline_seconds=self._options.close_deadline_seconds,
                    retry=False,
                )
            except PrecallError as error:
                _log.debug("the server was not told that a session ended (%s)", error.reason)

    async def opened(self) -> None:
        """Wait until the server knows the session."""
        while not self.is_open:
            await self._watcher.opened()
            await self._opened.wait()

    async def settled(self) -> None:
        """Wait until a whole push came over the present connection, and may be served."""
        while True:
            stream = await self._watcher.opened()
            await self._settled.wait()
            if self._source is stream and await stream.leased():
                return

    def lost(self) -> None:
        """The server does not know the session: nobody invalidates what is held, so it goes at once."""
        self._forget_held()
        self._reopen()

    def refresh(self) -> None:
        """Ask for everything anew when items were dropped by age."""
        if self.cache.aged and not self._refreshing and self.connected:
            self._refreshing = True
            self._reopen()

    def note_observed(self, sequence: int, observed_at: float) -> None:
        """Remember when an observation was made, to tell the lead of the push that it causes."""
        self._observed_at[sequence] = observed_at
        while len(self._observed_at) > _OBSERVATIONS_REMEMBERED:
            self._observed_at.popitem(last=False)

    def stream_opened(self, stream: Stream) -> None:
        self._settled.clear()
        self._reopen()

    def pushed(self, stream: Stream, push: anticipation_pb2.Push) -> None:
        if push.reset and self._source is not stream:
            self.cache.adopt(
                fingerprint=stream.model_fingerprint,
                maximum_age=stream.maximum_age,
                scripts=stream.model_scripts,
                scores_alike=stream.scores_alike,
            )
            self._source = stream
        elif push.resumed and self._resumption.told_on(stream):
            if not self._resumption.stands(beside=push.evicted_ids):
                _log.info("what a session holds has changed while it was being opened: it begins anew")
                self.lost()
                return
            self.cache.go_on()
            self._source = stream
        elif self._source is not stream:
            _log.warning("a push was ignored: it is a difference to something this session does not hold")
            return
        if push.reset or push.resumed:
            self._refreshing = False
        now = self._clock.elapsed()
        applied = self.cache.apply(push, elapsed=now)
        if applied.refused:
            self.refused_items += sum(applied.refused.values())
            _log.warning(
                "items of a push were refused: %s",
                ", ".join(f"{count} {kind.value}" for kind, count in applied.refused.items()),
            )
        if applied.settled:
            self._settled.set()
        if push.last:
            self.pushes += 1
            self._report_push(push, now)

    def invalidated(self, invalidation: anticipation_pb2.Invalidation) -> None:
        if self._session_id in invalidation.session_ids:
            self.cache.clear()
            self._settled.clear()
        else:
            self.cache.invalidate(
                invalidation.memory_ids,
                version=invalidation.version,
                superseded=invalidation.cause == anticipation_pb2.INVALIDATION_CAUSE_SUPERSEDED,
            )

    def confirmed(self, stream: Stream, version: int) -> None:
        if self._source is stream:
            self.cache.confirm(version)

    def ended(self, stream: Stream, reason: str) -> None:
        _log.info("the server ended a session (%s); it is opened again", reason)
        self.lost()

    def _forget_held(self) -> None:
        self.cache.clear()
        self._source = None
        self._settled.clear()

    def _reopen(self) -> None:
        self._opened_on = None
        self._opened.clear()
        self._wanted.set()

    async def _keep_open(self) -> None:
        backoff = Backoff(self._options.reconnect_initial_seconds, self._options.reconnect_maximum_seconds)
        failure = ""
        while True:
            await self._wanted.wait()
            stream = await self._watcher.opened()
            self._wanted.clear()
            try:
                await self._open_on(stream)
            except PrecallError as error:
                self._wanted.set()
                if error.reason != failure and not isinstance(error, Unavailable | NotFound):
                    _log.error("a session could not be opened (%s): %s", error.reason, error.message)
                failure = error.reason
                await asyncio.sleep(backoff.next())
            else:
                failure = ""
                backoff.reset()
                if not self._wanted.is_set():  # nothing happened meanwhile that asks for it again
                    self._opened_on = stream
                    self._opened.set()

    async def _open_on(self, stream: Stream) -> None:
        """Name what is held still: the push that follows goes on from that, or begins with nothing."""
        held = self._resumption.name(self._source, stream)
        self._attempts += 1
        written = self.written.version
        opened = await self._transport.call(
            OPEN_SESSION,
            anticipation_pb2.OpenSessionRequest(
                stream_id=stream.stream_id,
                session_id=self._session_id,
                attempt=self._attempts,
                conversation_id=self._conversation_id,
                scope=self._scope,
                max_items=self._options.max_items,
                max_bytes=self._options.max_bytes,
                vector_format=common_pb2.VECTOR_FORMAT_FLOAT16,
                held_ids=held.keys(),
                held_stamps=held.values(),
            ),
            deadline_seconds=self._options.observe_deadline_seconds,
            retry=False,
        )
        self.written.server_stands_at(opened.version, asked_at=written)

    def _report_push(self, push: anticipation_pb2.Push, now: float) -> None:
        report = anticipation_pb2.PushReport(
            session_id=self._session_id, push_id=push.push_id, items=len(push.items)
        )
        observed_at = self._observed_at.get(push.caused_by_sequence)
        if observed_at is not None:
            self.last_lead_seconds = now - observed_at
            report.lead.CopyFrom(convert.seconds_to_wire(self.last_lead_seconds))
        self._reporter.add_push(report)
