"""The sessions of all tenants: those that are pushed to, and those whose clients may still hold something."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping

from precall.engine.anticipation.events import SessionEnded
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.stream import Stream
from precall.engine.errors import AlreadyExists, SessionNotFound
from precall.engine.memory.ladder import Rung


class Sessions:
    """Live ones by id, by stream, and by tenant and each rung that concerns them, so that a change costs what
    those cost whom it concerns; departed ones by tenant and id until their lease has run out.

    Insertion order is kept everywhere: who hears first does not depend on hashes. Whoever comes or goes costs
    the same among thousands as alone.
    """

    def __init__(self) -> None:
        self._live: dict[str, Session] = {}
        self._of_stream: defaultdict[Stream, dict[str, Session]] = defaultdict(dict)
        self._concerned: defaultdict[str, defaultdict[Rung, dict[str, Session]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._departed: dict[str, dict[str, list[Session]]] = {}  # connection gone, lease perhaps not
        self._departures: deque[Session] = deque()  # in their order, to forget each once it is over

    def __iter__(self) -> Iterator[Session]:
        """Over the live ones of this moment."""
        return iter(list(self._live.values()))

    def get(self, tenant_id: str, session_id: str) -> Session | None:
        session = self._live.get(session_id)
        return session if session is not None and session.tenant_id == tenant_id else None

    def require(self, tenant_id: str, session_id: str) -> Session:
        """Raises SessionNotFound, for another tenant's as well."""
        session = self.get(tenant_id, session_id)
        if session is None:
            raise SessionNotFound("no such session: open it on a live stream")
        return session

    def is_live(self, session: Session) -> bool:
        return self._live.get(session.id) is session

    def of_tenant(self, tenant_id: str) -> list[Session]:
        concerned: Mapping[Rung, Mapping[str, Session]] = self._concerned.get(tenant_id, {})
        tops = [rung for rung in concerned if rung.depth == 1]  # each lineage has one
        return self.concerned(tenant_id, tops)

    def of_stream(self, stream: Stream) -> list[Session]:
        return list(self._of_stream.get(stream, {}).values())

    def concerned(self, tenant_id: str, rungs: Collection[Rung]) -> list[Session]:
        """The live ones that see one of these rungs, or may hold something of it, each once."""
        concerned: Mapping[Rung, Mapping[str, Session]] = self._concerned.get(tenant_id, {})
        return list(dict.fromkeys(s for rung in rungs if rung in concerned for s in concerned[rung].values()))

    def count_on(self, stream: Stream, *, beside: str) -> int:
        """How many a stream carries, one of this id not counted."""
        carried = self._of_stream.get(stream, {})
        return len(carried) - (beside in carried)

    def departed(self, tenant_id: str) -> list[Session]:
        """Those of a tenant whose clients may still serve what they hold."""
        by_id = self._departed.get(tenant_id, {})
        return [session for some in by_id.values() for session in some if _may_serve(session)]

    def departed_as(self, tenant_id: str, session_id: str) -> list[Session]:
        """Those of one id, as `departed`."""
        return [s for s in self._departed.get(tenant_id, {}).get(session_id, ()) if _may_serve(s)]

    @property
    def longest_lease(self) -> float:
        """Seconds until no client may serve anything from its cache."""
        departed = (s for tenant_id in self._departed for s in self.departed(tenant_id))
        return max((s.stream.lease.remaining for s in (*self._live.values(), *departed)), default=0.0)

    def add(self, session: Session) -> set[str]:
        """Take it in. From now on it answers for what an earlier connection of the same session may hold and
        serve still; returns the ids of that.

        It goes on with what was said on the earlier connection. One that is still there may belong to another
        process, which the new one cannot speak for: it is told to drop the session, and counts as a holder
        until it has. Raises AlreadyExists for an id of another tenant's.
        """
        foreign = self._live.get(session.id)
        if foreign is not None and foreign.tenant_id != session.tenant_id:
            raise AlreadyExists("this session_id is in use: make a new UUID")
        inherited: set[str] = set()
        live = [foreign] if foreign is not None else []
        for earlier in [*live, *self.departed_as(session.tenant_id, session.id)]:
            if earlier is not foreign and earlier.stream.open:
                continue
            inherited |= earlier.held_ids()
            session.stream.lease.cover(earlier.stream.lease)
            session.go_on_from(earlier)
            if earlier is not foreign:
                self._forget(earlier)
                continue
            self.remove(earlier)
            if earlier.stream is not session.stream:
                end = SessionEnded(earlier.id, "the session was opened on another stream")
                earlier.ended_sequence = earlier.stream.send(end)
                self._remember(earlier)
        self.forget_past()
        self._live[session.id] = session
        self._of_stream[session.stream][session.id] = session
        for rung in session.concerning:
            self._concerned[session.tenant_id][rung][session.id] = session
        return inherited

    def remove(self, session: Session) -> None:
        """Its client holds nothing any more, or somebody else answers for it."""
        del self._live[session.id]
        of_stream = self._of_stream[session.stream]
        del of_stream[session.id]
        if not of_stream:
            del self._of_stream[session.stream]
        concerned = self._concerned[session.tenant_id]
        for rung in session.concerning:
            del concerned[rung][session.id]
            if not concerned[rung]:
                del concerned[rung]
        if not concerned:
            del self._concerned[session.tenant_id]

    def depart(self, session: Session) -> None:
        """Its connection is gone: what its client holds is remembered until the lease has run out."""
        self.remove(session)
        self._remember(session)
        self.forget_past()

    def forget_past(self) -> None:
        """Drop departed ones whose clients may serve nothing any more, the earliest first.

        One whose lease outlasts those of later ones holds these back for as long.
        """
        while self._departures and not _may_serve(self._departures[0]):
            self._forget(self._departures.popleft())

    def _remember(self, session: Session) -> None:
        self._departed.setdefault(session.tenant_id, {}).setdefault(session.id, []).append(session)
        self._departures.append(session)

    def _forget(self, session: Session) -> None:
        """Unless another one has taken over from it, which forgot it then."""
        by_id = self._departed.get(session.tenant_id, {})
        if session not in by_id.get(session.id, ()):
            return
        by_id[session.id].remove(session)
        if not by_id[session.id]:
            del by_id[session.id]
        if not by_id:
            del self._departed[session.tenant_id]

    def check_integrity(self) -> None:
        """Raise AssertionError when the books disagree; for tests."""
        for session in self._live.values():
            session.held.check_integrity()
            assert session.stream.tenant_id == session.tenant_id
            assert all(p.rung.is_visible_from(session.rung) for p in session.partitions)
            assert self._of_stream[session.stream][session.id] is session
            assert all(
                self._concerned[session.tenant_id][rung][session.id] is session for rung in session.concerning
            )
        assert sum(map(len, self._of_stream.values())) == len(self._live)
        assert sum(len(self.of_tenant(tenant_id)) for tenant_id in self._concerned) == len(self._live)
        departed = [s for by_id in self._departed.values() for some in by_id.values() for s in some]
        assert set(departed) <= set(self._departures)
        assert not any(self.is_live(session) for session in departed)


def _may_serve(departed: Session) -> bool:
    return departed.stream.lease.remaining > 0 and departed.stream.applied < departed.ended_sequence
