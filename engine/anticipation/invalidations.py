"""What a change takes away, on its way to all who may hold it."""

from precall.engine.anticipation.events import Invalidation
from precall.engine.anticipation.observer import AnticipationObserver
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.sessions import Sessions
from precall.engine.anticipation.stream import Stream
from precall.engine.change import Change, ChangeCause


def invalidate(change: Change, sessions: Sessions, observer: AnticipationObserver) -> dict[Stream, int]:
    """Queue invalidations; returns for each stream that must confirm the sequence to wait for.

    What comes again at once goes like what is superseded: its push is what a client waits for. Until it has
    gone it counts as held, for it may be deleted next.
    """
    waiting: dict[Stream, int] = {}
    again = {indexed.memory.id for indexed in change.added}
    going: dict[tuple[Stream, ChangeCause], list[tuple[Session, str]]] = {}
    live = sessions.concerned(change.tenant_id, {removed.rung for removed in change.removed})
    departed = sessions.departed(change.tenant_id) if change.removed else ()
    for session in (*live, *departed):
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
        observer.invalidated(len(ids))
    return waiting
