"""Sessions and streams: what was observed goes in, what the next reads need goes out, deletes reach all.

Only the event loop may call in. Every method that changes what a session holds queues the matching event
before it awaits anything, so a stream's order is the order of truth.
"""

from collections.abc import Collection, Mapping, Sequence

from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.anticipation.conversation import Conversation, Turn
from precall.engine.anticipation.conversation_model import ConversationModel
from precall.engine.anticipation.cue import Cue
from precall.engine.anticipation.events import Draining, Heartbeat, Invalidation, Push, SessionEnded
from precall.engine.anticipation.held import HeldSet
from precall.engine.anticipation.invalidations import invalidate
from precall.engine.anticipation.observer import AnticipationObserver
from precall.engine.anticipation.prediction import Prediction
from precall.engine.anticipation.predictor import Learner, Predictor
from precall.engine.anticipation.rung_reading import RungReadings
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.sessions import Sessions
from precall.engine.anticipation.settings import AnticipationSettings
from precall.engine.anticipation.stream import NEVER, Stream
from precall.engine.anticipation.streams import Streams
from precall.engine.change import Change, ChangeCause
from precall.engine.clock import Clock
from precall.engine.encoding.card import ModelCard
from precall.engine.errors import Overloaded, StreamNotFound
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
        learners: Sequence[Learner] = (),
    ) -> None:
        """``learners``: those of the predictors that remember beyond a conversation."""
        self.settings = settings
        self._clock = clock
        self._observer = observer
        self._streams = Streams(settings, clock)
        self._sessions = Sessions()
        self._published: dict[str, int] = {}  # tenant -> version up to which changes were queued
        self._prediction = Prediction(
            predictors,
            clock,
            observer,
            self.is_live,
            self.send,
            part_items=settings.push_part_items,
            learners=learners,
        )

    # Streams

    def open_stream(self, tenant_id: str, stream_id: str, card: ModelCard) -> Stream:
        """``card``: of the model that serves the tenant now. Raises AlreadyExists for an id in use."""
        return self._streams.open(tenant_id, stream_id, card)

    def heartbeat(self, tenant_id: str) -> Heartbeat:
        self._sessions.forget_past()
        return Heartbeat(self._published.get(tenant_id, 0), self._clock.wall())

    def close_stream(self, stream: Stream, reason: str) -> None:
        """The connection is gone. What its sessions hold is remembered until their lease has run out."""
        stream.end(reason)
        self._streams.remove(stream)
        for session in self._sessions.of_stream(stream):
            self._sessions.depart(session)
            self._prediction.ended(session)

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
        return self._sessions.longest_lease

    # Sessions

    def readings(self, named: Mapping[str, int] | None) -> RungReadings:
        """To be prepared for `open_session`. ``named``: what the client goes on with, as they have it."""
        return RungReadings(complete_below=self.settings.complete_below, named=named)

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
        attempt: int = 0,
        readings: RungReadings | None = None,
    ) -> Session:
        """Start to push for a session; ``partitions`` are its lineage's at ``version`` or later, with vectors
        of ``model``. ``attempt``: one that comes after a later one of the same stream is without effect: what
        it names was true before. ``readings``: what the client names as held, and what was read of the
        partitions, so that it need not be read here; None: it names nothing.

        Raises StreamNotFound for a stream that has ended or was opened while another model served,
        Overloaded, and AlreadyExists for an id of another tenant's.
        """
        settings = self.settings
        stream = self._streams.require(tenant_id, stream_id)
        if not stream.open or stream.card.fingerprint != model.card.fingerprint:
            raise StreamNotFound("this stream has ended: call Watch with a new stream_id, then open it there")
        if self._sessions.count_on(stream, beside=session_id) >= settings.sessions_per_stream:
            raise Overloaded(
                f"a stream carries at most {settings.sessions_per_stream} sessions: open another client",
                retry_after_seconds=settings.heartbeat_seconds,
            )
        later = self._sessions.get(tenant_id, session_id)
        if later is not None and later.stream is stream and later.attempt >= attempt > 0:
            return later
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
            parts_waiting=settings.push_parts_waiting,
            attempt=attempt,
        )
        readings = readings or self.readings(None)
        inherited = self._sessions.add(session)
        self._published.setdefault(tenant_id, version)
        session.announced_version = self._published[tenant_id]
        first = self.send(
            session,
            session.open_push(
                readings=readings.settled(partitions),
                part_items=settings.push_part_items,
                named=readings.named,
                inherited=inherited,
            ),
        )
        session.linger({*inherited, *(readings.named or ())}, until=first)
        self._prediction.opened(session)
        if session.conversation.latest is not None:  # said on an earlier connection
            self._prediction.observed(session, Cue.SAID)
        return session

    def model_card(self, tenant_id: str, session_id: str) -> ModelCard:
        """Of the model of a session's vectors. Raises SessionNotFound."""
        return self._sessions.require(tenant_id, session_id).model.card

    def observe(self, tenant_id: str, session_id: str, sequence: int, turn: Turn, *, partial: bool) -> bool:
        """Take an observation; False when it was taken before. Prediction follows on its own."""
        session = self._sessions.require(tenant_id, session_id)
        if sequence <= session.sequence:
            return False
        session.sequence, session.observed_at = sequence, self._clock.wall()
        if session.claims.incomplete and not session.behind:
            self.send(session, session.refill_push(part_items=self.settings.push_part_items))
        self._prediction.observed(session, session.conversation.observe(turn, partial=partial))
        return True

    def served(self, tenant_id: str, session_id: str, memory_ids: Collection[str]) -> None:
        """A client's reads were answered with these from its cache. A session that is gone is passed over."""
        session = self._sessions.get(tenant_id, session_id)
        if session is not None:
            session.held.use(memory_ids)

    def is_live(self, session: Session) -> bool:
        """Whether pushes still reach the session."""
        return session.stream.open and self._sessions.is_live(session)

    def close_session(self, tenant_id: str, session_id: str) -> None:
        """The client dropped the cache. A session that is not known is closed already."""
        session = self._sessions.get(tenant_id, session_id)
        if session is not None:
            self._sessions.remove(session)
            self._prediction.ended(session)

    # Changes

    def announce(self, change: Change) -> Confirmation:
        """Queue what every session must know of a change; the caller awaits the confirmation before it acks.

        Call it in the order of versions. An invalidation goes out before the push that carries the new
        version, so that a cache which claims the version holds neither too much nor too little.
        """
        self._prediction.forget(change)
        self._published[change.tenant_id] = change.version
        confirmation = Confirmation(
            invalidate(change, self._sessions, self._observer), self._clock, self._observer
        )
        for session in self._sessions.of_tenant(change.tenant_id):
            session.announced_version = change.version
        rungs = change.rungs
        for session in self._sessions.concerned(change.tenant_id, rungs):
            if not any(rung.is_visible_from(session.rung) for rung in rungs):
                continue
            added = [m for m in change.added if m.memory.rung.is_visible_from(session.rung)]
            pushes = session.written_push(
                added, change.removed_terms, part_items=self.settings.push_part_items
            )
            self.send(session, pushes)
        return confirmation

    async def drop_tenant(self, tenant_id: str) -> None:
        """End every session of a tenant that is being destroyed; returns when no cache can serve it."""
        waiting: dict[Stream, int] = {}
        holders = [*self._sessions.of_tenant(tenant_id), *self._sessions.departed(tenant_id)]
        for stream in dict.fromkeys(session.stream for session in holders):
            ids = [session.id for session in holders if session.stream is stream]
            body = Invalidation((), self._published.get(tenant_id, 0), ChangeCause.DELETED, ids)
            waiting[stream] = stream.send(body, confirm=True)
        for session in self._sessions.of_tenant(tenant_id):
            self._sessions.remove(session)
            session.stream.send(SessionEnded(session.id, "the tenant was deleted"))
        await Confirmation(waiting, self._clock, self._observer).wait()
        self._published.pop(tenant_id, None)
        for stream in self._streams.of_tenant(tenant_id):
            self.close_stream(stream, "the tenant was deleted")
        self._prediction.forget_tenant(tenant_id)

    async def settle(self) -> None:
        """Return once nothing is being predicted; for tests and measurements."""
        await self._prediction.settle()

    async def drain(self, grace_seconds: float) -> None:
        """Ask every client to leave, stop predicting, and end the streams."""
        await self._prediction.close()
        for stream in self._streams:
            stream.send(Draining(grace_seconds))
            stream.end(DRAIN_REASON)

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        self._sessions.check_integrity()

    # Internal

    def send(self, session: Session, pushes: Sequence[Push]) -> int:
        """Queue a difference; returns the sequence of its last part.

        Where the session has ended nobody is told of it, and its client keeps what was let go: that counts as
        held until its lease has run out.
        """
        sequence = NEVER
        for push in pushes:
            live = self.is_live(session)
            sequence = session.stream.send(push) if live else NEVER
            session.linger(push.evicted_ids, until=sequence)
            for predictor in {item.predictor for item in push.items} if live else ():
                self._observer.pushed(predictor, sum(1 for i in push.items if i.predictor == predictor))
        return sequence
