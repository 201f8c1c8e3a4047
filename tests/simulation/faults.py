"""Faults that a schedule must find: what is easy to get wrong in the promises, put into the real classes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final
from unittest import mock

from precall.client.cache import SessionCache
from precall.client.claims import Claims
from precall.client.stream import Stream as ClientStream
from precall.client.subscription import Subscription
from precall.client.watcher import Watcher
from precall.engine.anticipation import rung_reading
from precall.engine.anticipation.anticipator import Anticipator
from precall.engine.anticipation.confirmation import Confirmation
from precall.engine.anticipation.events import Heartbeat
from precall.engine.anticipation.session import Session
from precall.engine.anticipation.sessions import Sessions
from precall.engine.anticipation.stream import Stream
from precall.engine.memory.ladder import Rung
from precall.server.mapping import events
from tests.fakes.memories import DANA, EVE
from tests.simulation.server import SimulatedServer

Patch = AbstractContextManager[Any]


def _lease_from_receipt() -> Patch:
    def note_renewed(self: Any, sent_at: float, lease_seconds: float) -> None:
        real(self, max(sent_at, self._clock.elapsed()), lease_seconds)

    real = ClientStream.note_renewed
    return mock.patch.object(ClientStream, "note_renewed", note_renewed)


def _first_session_alone() -> Patch:
    def apply(self: Any, stream: Any, event: Any) -> None:
        if event.WhichOneof("event") != "invalidation":
            real(self, stream, event)
        elif self._listeners:
            next(iter(self._listeners.values())).invalidated(event.invalidation)

    real = Watcher._apply
    return mock.patch.object(Watcher, "_apply", apply)


def _version_ahead() -> Patch:
    def heartbeat(self: Any, tenant_id: str) -> Heartbeat:
        told = real(self, tenant_id)
        return Heartbeat(told.version + 1, told.wall_time)

    real = Anticipator.heartbeat
    return mock.patch.object(Anticipator, "heartbeat", heartbeat)


def _no_floor() -> Patch:
    def take(self: Any, push: Any, **arguments: Any) -> None:
        push.coverage.floor = 0.0
        real(self, push, **arguments)

    real = Claims.take
    return mock.patch.object(Claims, "take", take)


def _nothing_taken_back() -> Patch:
    def open_push(self: Any, **arguments: Any) -> Any:
        return [replace(push, evicted_ids=()) for push in real(self, **arguments)]

    real = Session.open_push
    return mock.patch.object(Session, "open_push", open_push)


def _last_written_left_out() -> Patch:
    def written_push(self: Any, added: Any, removed_terms: Any, *, part_items: int) -> Any:
        return real(self, added[:-1], removed_terms, part_items=part_items)

    real = Session.written_push
    return mock.patch.object(Session, "written_push", written_push)


def _sideways() -> Patch:
    def lineage(self: Rung) -> tuple[Rung, ...]:
        return (*real(self), *(beside for beside in (DANA, EVE) if self.depth > 1 and beside != self))

    real = Rung.lineage
    return mock.patch.object(Rung, "lineage", lineage)


def _same_stamps() -> Patch:
    @contextmanager
    def patched() -> Iterator[None]:
        with (
            mock.patch.object(rung_reading, "stamp_of", return_value=1),
            mock.patch.object(events, "stamp_of", return_value=1),
        ):
            yield

    return patched()


FAULTS: Final[Mapping[str, Callable[[], Patch]]] = MappingProxyType(
    {
        "an ack waits for nobody": lambda: mock.patch.object(Confirmation, "wait", mock.AsyncMock()),
        "a lease counts from when it arrived": _lease_from_receipt,
        "a lease that ran out is served under": lambda: mock.patch.object(
            Subscription, "servable", property(lambda self: self._source is not None)
        ),
        "a client that is behind gets its lease": lambda: mock.patch.object(
            Stream, "behind", property(lambda self: not self.open)
        ),
        "a restarted server waits for no lease": lambda: mock.patch.object(
            SimulatedServer,
            "guarded_until",
            property(lambda self: 0.0, lambda self, moment: None),
            create=True,
        ),
        "who left is forgotten": lambda: mock.patch.object(Sessions, "departed", return_value=[]),
        "what is on its way out counts as gone": lambda: mock.patch.object(Session, "linger"),
        "who resumes is not told what is gone": _nothing_taken_back,
        "a stamp is the same for everything": _same_stamps,
        "an invalidation reaches one session of a process": _first_session_alone,
        "a heartbeat is a version ahead": _version_ahead,
        "an answer says that it left nothing out": _no_floor,
        "the last of what is written is left out": _last_written_left_out,
        "who looks up the ladder looks sideways": _sideways,
        "items grow old for ever": lambda: mock.patch.object(SessionCache, "_drop_aged"),
    }
)


@contextmanager
def planted(name: str) -> Iterator[None]:
    with FAULTS[name]():
        yield
