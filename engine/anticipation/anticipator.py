"""Sessions and streams: what was observed goes in, what the next reads need goes out, deletes reach all.

Only the event loop may call in. Every method that changes what a session holds queues the matching event
before it awaits anything, so a stream's order is the order of truth.
"""

from collections.abc import Sequence

from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.anticipation.conversation import Conversation, Turn
from precall.engine.anticipation.conversation_model import ConversationModel
from precall.engine.anticipation.events import (
    Draining,
    Heartbeat,
    Invalidation,
    Push,
    SessionEnded,
)
from precall.engine.anticipation.held import HeldSet
from precall.engine.anticipation.observer import AnticipationObserver
from precall.engine.anticipation.prediction import Prediction
from precall.engine.anticipation.predictor import Predictor
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import NEVER, Stream
from precall.engine.anticipation.streams import Streams
from precall.engine.change import Change, ChangeCause
from precall.engine.clock import Clock
from precall.engine.encoding.card import ModelCard
from precall.engine.errors import AlreadyExists, Overloaded, SessionNotFound, StreamNotFound
from precall.engine.index.partition import Partition
from precall.engine.memory.ladder import Ladder, Rung

DRAIN_REASON = "the server is shutting down"


class Anticipator:
    """All sessions of one server process."""

    def __init__(
        self,
        settings: AnticipationSettings,
        predictors: Sequence[Predictor],
        clock: Clock,
        observer: AnticipationObserver,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._observer = observer
        self._streams = Streams(settings, clock)
        self._sessions: dict[str, Session] = {}
        self._departed: list[Session] = []  # connection gone, lease perhaps not
        self._published: dict[str, int] = {}  # tenant -> version up to which changes were queued
        self._prediction = Prediction(
            predictors, clock, observer, self.is_live, self.send, part_items=settings.push_part_items
        )

    # Streams

    def open_stream(self, tenant_id: str, stream_id: str, card: ModelCard) -> Stream:
        """``card``: of the model that serves the tenant now. Raises AlreadyExists for an id in use."""
        return self._streams.open(tenant_id, stream_id, card)

    def heartbeat(self, tenant_id: str) -> Heartbeat:
        return Heartbeat(self._published.get(tenant_id, 0), self._clock.wall())

    def close_stream(self, stream: Stream, reason: str) -> None:
        """The connection is gone. What its sessions hold is remembered until their lease has run out."""
        stream.end(reason)
        self._streams.remove(stream)
        for session in [s for s in self._sessions.values() if s.stream is stream]:
            del self._sessions[session.id]
            self._departed.append(session)
        self._forget_expired()

    def end_streams(self, tenant_id: str, reason: str) -> None:
        """Let every client of a tenant come back on a new stream. What they hold they may serve meanwhile,
        under their leases: whoever waits for that goes on waiting.
        """
        for stream in self._streams.of_tenant(tenant_id):
            stream.end(reason)

    def acknowledge(self, tenant_id: str, stream_id: str, applied_sequence: int) -> None:
        """The client has applied every event up to this one; whoever waits for that goes on."""
        self._streams.require(tenant_id, stream_id).acknowledge(applied_sequence)

    def renew_lease(self, tenant_id: str, stream_id: str, applied_sequence: int) -> float:
        """Acknowledge and renew; the seconds granted, 0 when the client must first apply what it was sent."""
        stream = self._streams.require(tenant_id, stream_id)
        stream.acknowledge(applied_sequence)
        return 0.0 if stream.behind else stream.lease.grant()

    @property
    def longest_lease(self) -> float:
        """Seconds until no client of this process may serve anything from its cache."""
        sessions = [*self._sessions.values(), *self._departed]
        return max((session.stream.lease.remaining for session in sessions), default=0.0)

    # Sessions

    def open_session(
        self,
        *,
        tenant_id: str,
        stream_id: str,
        session_id: str,
        conversation_id: str,
        rung: Rung,
        ladder: Ladder,
        model: ConversationModel,
        partitions: Sequence[Partition],
        version: int,
        max_items: int = 0,
        max_bytes: int = 0,
    ) -> Session:
        """Start to push for a session; ``partitions`` are its lineage's at ``version`` or later, with vectors
        of ``model``.

        Raises StreamNotFound for a stream that has ended or was opened while another model served,
        Overloaded, and AlreadyExists for an id of another tenant's.
        """
        settings = self.settings
        stream = self._streams.require(tenant_id, stream_id)
        if not stream.open or stream.card.fingerprint != model.card.fingerprint:
            raise StreamNotFound("this stream has ended: call Watch with a new stream_id, then open it there")
        if sum(1 for s in self._sessions.values() if s.stream is stream) >= settings.sessions_per_stream:
            raise Overloaded(
                f"a stream carries at most {settings.sessions_per_stream} sessions: open another client",
                retry_after_seconds=settings.heartbeat_seconds,
            )
        session = Session(
            id=session_id,
            tenant_id=tenant_id,
            conversation_id=conversation_id,
            rung=rung,
            ladder=ladder,
            model=model,
            partitions=partitions,
            stream=stream,
            held=HeldSet(
                max_items=min(max_items or settings.max_items, settings.max_items),
                max_bytes=min(max_bytes or settings.max_bytes, settings.max_bytes),
                coverages_kept=settings.coverages_kept,
            ),
            conversation=Conversation(settings.turns_kept),
        )
        inherited = self._take_over(session)
        self._sessions[session_id] = session
        self._published.setdefault(tenant_id, version)
        session.announced_version = self._published[tenant_id]
        reset = self.send(
            session,
            session.open_push(complete_below=settings.complete_below, part_items=settings.push_part_items),
        )
        session.linger(inherited, until=reset)
        return session

    def observe(self, tenant_id: str, session_id: str, sequence: int, turn: Turn, *, partial: bool) -> bool:
        """Take an observation; False when it was taken before. Prediction follows on its own."""
        session = self._session(tenant_id, session_id)
        if sequence <= session.sequence:
            return False
        session.sequence, session.observed_at = sequence, self._clock.wall()
        said_more = session.conversation.observe(turn, partial=partial)
        if said_more and not session.wholly_complete:
            self._prediction.request(session)
        return True

    def is_live(self, session: Session) -> bool:
        """Whether pushes still reach the session."""
        return session.stream.open and self._sessions.get(session.id) is session

    def close_session(self, tenant_id: str, session_id: str) -> None:
        """The client dropped the cache. A session that is not known is closed already."""
        session = self._sessions.get(session_id)
        if session is not None and session.tenant_id == tenant_id:
            del self._sessions[session_id]

    # Changes

    def announce(self, change: Change) -> Confirmation:
        """Queue what every session must know of a change; the caller awaits the confirmation before it acks.

        Call it in the order of versions. An invalidation goes out before the push that carries the new
        version, so that a cache which claims the version holds neither too much nor too little.
        """
        self._published[change.tenant_id] = change.version
        confirmation = Confirmation(self._invalidate(change), self._clock, self._observer)
        for session in self._of_tenant(change.tenant_id):
            session.announced_version = change.version
            added = [m for m in change.added if m.memory.rung.is_visible_from(session.rung)]
            if added or any(r.rung.is_visible_from(session.rung) for r in change.removed):
                pushes = session.written_push(
                    added, change.removed_terms, part_items=self.settings.push_part_items
                )
                self.send(session, pushes)
        return confirmation

    async def drop_tenant(self, tenant_id: str) -> None:
        """End every session of a tenant that is being destroyed; returns when no cache can serve it."""
        waiting: dict[Stream, int] = {}
        for stream in {s.stream for s in self._holders(tenant_id)}:
            ids = [s.id for s in self._holders(tenant_id) if s.stream is stream]
            body = Invalidation((), self._published.get(tenant_id, 0), ChangeCause.DELETED, ids)
            waiting[stream] = stream.send(body, confirm=True)
        for session in list(self._of_tenant(tenant_id)):
            del self._sessions[session.id]
            session.stream.send(SessionEnded(session.id, "the tenant was deleted"))
        await Confirmation(waiting, self._clock, self._observer).wait()
        self._published.pop(tenant_id, None)
        for stream in self._streams.of_tenant(tenant_id):
            self.close_stream(stream, "the tenant was deleted")

    async def drain(self, grace_seconds: float) -> None:
        """Ask every client to leave, stop predicting, and end the streams."""
        await self._prediction.close()
        for stream in self._streams:
            stream.send(Draining(grace_seconds))
            stream.end(DRAIN_REASON)

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        for session in self._sessions.values():
            session.held.check_integrity()
            assert session.stream.tenant_id == session.tenant_id
            assert all(p.rung.is_visible_from(session.rung) for p in session.partitions)

    # Internal

    def _session(self, tenant_id: str, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None or session.tenant_id != tenant_id:
            raise SessionNotFound("no such session: open it on a live stream")
        return session

    def _of_tenant(self, tenant_id: str) -> list[Session]:
        return [s for s in self._sessions.values() if s.tenant_id == tenant_id]

    def _holders(self, tenant_id: str) -> list[Session]:
        """Sessions whose clients may hold something, connected or not."""
        self._forget_expired()
        return [*self._of_tenant(tenant_id), *(s for s in self._departed if s.tenant_id == tenant_id)]

    def _forget_expired(self) -> None:
        self._departed = [
            s for s in self._departed if s.stream.lease.remaining > 0 and s.stream.applied < s.ended_sequence
        ]

    def _take_over(self, session: Session) -> set[str]:
        """Answer from now on for what an earlier connection of the same session may still hold and serve.

        Returns the ids. A connection that is still there may belong to another process, which the new one
        cannot speak for: it is told to drop the session, and counts as a holder until it has.
        """
        foreign = self._sessions.get(session.id)
        if foreign is not None and foreign.tenant_id != session.tenant_id:
            raise AlreadyExists("this session_id is in use: make a new UUID")
        inherited: set[str] = set()
        for earlier in [s for s in self._holders(session.tenant_id) if s.id == session.id]:
            if earlier in self._departed and earlier.stream.open:
                continue
            inherited |= earlier.held_ids()
            session.stream.lease.cover(earlier.stream.lease)
            if earlier in self._departed:
                self._departed.remove(earlier)
            elif earlier.stream is not session.stream:
                end = SessionEnded(earlier.id, "the session was opened on another stream")
                earlier.ended_sequence = earlier.stream.send(end)
                self._departed.append(earlier)
        return inherited

    def _invalidate(self, change: Change) -> dict[Stream, int]:
        """Queue invalidations; returns for each stream that must confirm the sequence to wait for.

        What comes again at once goes like what is superseded: its push is what a client waits for. Until it
        has gone it counts as held, for it may be deleted next.
        """
        waiting: dict[Stream, int] = {}
        again = {indexed.memory.id for indexed in change.added}
        going: dict[tuple[Stream, ChangeCause], list[tuple[Session, str]]] = {}
        for session in self._holders(change.tenant_id):
            for removed in change.removed:
                if session.may_hold(removed.id):
                    session.forget(removed.id)
                    cause = ChangeCause.SUPERSEDED if removed.id in again else change.cause
                    going.setdefault((session.stream, cause), []).append((session, removed.id))
        for (stream, cause), held in going.items():
            ids = sorted({memory_id for _, memory_id in held})
            sequence = waiting[stream] = stream.send(Invalidation(ids, change.version, cause), confirm=True)
            for session, memory_id in held:
                if memory_id in again:
                    session.linger((memory_id,), until=sequence)
            self._observer.invalidated(len(ids))
        return waiting

    def send(self, session: Session, pushes: Sequence[Push]) -> int:
        """Queue a difference, unless the session has ended; returns the sequence of its last part."""
        sequence = NEVER
        if not self.is_live(session):
            return sequence
        for push in pushes:
            sequence = session.stream.send(push)
            session.linger(push.evicted_ids, until=sequence)
            for predictor in {item.predictor for item in push.items}:
                self._observer.pushed(predictor, sum(1 for i in push.items if i.predictor == predictor))
        return sequence
