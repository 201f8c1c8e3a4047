"""What was said, on its way to the server: ordered, retried, and never in the caller's way."""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from precall.client import arguments, convert
from precall.client.background import start_background
from precall.client.backoff import Backoff
from precall.client.clock import Clock
from precall.client.errors import (
    DeadlineExceeded,
    InvalidInput,
    NotFound,
    Overloaded,
    PrecallError,
    Unavailable,
)
from precall.client.methods import OBSERVE_TURN
from precall.client.options import ClientOptions
from precall.client.question import MAX_QUERY_CHARACTERS
from precall.client.read import Read
from precall.client.spoken_vectors import SpokenVector, SpokenVectors
from precall.client.subscription import Subscription
from precall.client.transport import Transport
from precall.proto import anticipation_pb2

_log = logging.getLogger(__name__)

Role = Literal["user", "assistant", "tool"]

MAX_USED_IDS: Final = 1000

_ROLE_TO_WIRE: Final = {
    "user": anticipation_pb2.TURN_ROLE_USER,
    "assistant": anticipation_pb2.TURN_ROLE_ASSISTANT,
    "tool": anticipation_pb2.TURN_ROLE_TOOL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One turn, or a turn so far. ``observed_at`` by ``Clock.elapsed``; an empty ``turn_id``: the outbox's.

    Raises InvalidInput as ``check_observation`` does.
    """

    role: Role
    text: str
    partial: bool
    turn_id: str
    used_ids: tuple[str, ...]
    observed_at: float
    said_time: datetime

    def __post_init__(self) -> None:
        check_observation(
            self.role, self.text, partial=self.partial, turn_id=self.turn_id, used=self.used_ids
        )


def check_observation(
    role: str, text: str, *, partial: bool, turn_id: str | None, used: Read | Sequence[str] | None
) -> None:
    """Raises InvalidInput for what no server would take.

    That is an unknown role, a text that is empty although the turn is over, one that is too long to search
    with, ids that are no UUIDs, and strings that cannot be encoded.
    """
    if arguments.text(role, "role") not in _ROLE_TO_WIRE:
        raise InvalidInput(f"role {role!r} is unknown, use one of {', '.join(_ROLE_TO_WIRE)}")
    if not arguments.text(text, "text").strip() and not partial:
        raise InvalidInput("text is empty: a turn that is over says something")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(f"text has {len(text)} characters, at most {MAX_QUERY_CHARACTERS}: cut the turn")
    if turn_id is not None:
        arguments.text(turn_id, "turn_id")
    used_ids(used)


def used_ids(used: Read | Sequence[str] | None) -> tuple[str, ...]:
    """The memory ids that a turn was built on. Raises InvalidInput for what are no ids, or too many."""
    if isinstance(used, Read):
        ids: Sequence[str] = used.used_ids
    elif isinstance(used, str):
        ids = (used,)
    else:
        ids = () if used is None else used
    checked = arguments.uuid_texts(ids, "used")
    if len(checked) > MAX_USED_IDS:
        raise InvalidInput(f"used names {len(checked)} memories, at most {MAX_USED_IDS}")
    return checked


def observation(
    clock: Clock,
    role: Role,
    text: str,
    *,
    partial: bool,
    turn_id: str | None,
    used: Read | Sequence[str] | None,
) -> Observation:
    """An observation made now."""
    return Observation(
        role=role,
        text=text,
        partial=partial,
        turn_id=turn_id or "",
        used_ids=used_ids(used),
        observed_at=clock.elapsed(),
        said_time=convert.utc(clock.wall()),
    )


class Outbox:
    """A session's observations, sent one after another.

    A partial that was not sent yet is replaced by any newer text of its turn. The queue is bounded: the
    oldest partials fall out first; if only finished turns wait, the oldest of them falls out, counted and
    logged. Sequence numbers go up by one for each observation sent and never start again, so the server
    knows repeats.
    """

    def __init__(
        self,
        subscription: Subscription,
        transport: Transport,
        vectors: SpokenVectors,
        options: ClientOptions,
    ) -> None:
        self.dropped_partials = 0
        self.dropped_turns = 0
        self._subscription = subscription
        self._transport = transport
        self._vectors = vectors
        self._options = options
        self._pending: deque[Observation] = deque()
        self._sequence = 0
        self._open_turns: dict[str, str] = {}
        self._waiting = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """Observations that the server has not taken yet, the one on its way not counted."""
        return len(self._pending)

    def start(self) -> None:
        self._task = start_background(self._run(), name="precall-observe")

    async def close(self) -> None:
        """Send what waits, as far as the close deadline allows; in an outage there is nothing to wait for."""
        if self._task is None:
            return
        try:
            if self._subscription.connected:
                async with asyncio.timeout(self._options.close_deadline_seconds):
                    await self._empty.wait()
        except TimeoutError:
            pass
        finally:  # also when the closing is cancelled
            turns = sum(not waiting.partial for waiting in self._pending)
            if turns:
                _log.warning("%d observed turns were not sent before the session was closed", turns)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def put(self, made: Observation) -> None:
        """Queue an observation; returns at once. An empty partial says nothing and is left out."""
        turn_id = self._turn_of(made)
        if not made.text.strip():
            return
        self._pending = deque(
            waiting for waiting in self._pending if not (waiting.partial and waiting.turn_id == turn_id)
        )
        self._pending.append(replace(made, turn_id=turn_id))
        if len(self._pending) > self._options.max_pending_observations:
            self._drop_one()
        self._empty.clear()
        self._waiting.set()

    def _turn_of(self, made: Observation) -> str:
        """Partials of one role belong together until that role's turn is over."""
        turn_id = made.turn_id or self._open_turns.get(made.role) or str(uuid.uuid4())
        if made.partial:
            self._open_turns[made.role] = turn_id
        else:
            self._open_turns.pop(made.role, None)
        return turn_id

    def _drop_one(self) -> None:
        oldest_partial = next((waiting for waiting in self._pending if waiting.partial), None)
        if oldest_partial is not None:
            self._pending.remove(oldest_partial)
            self.dropped_partials += 1
            return
        self._pending.popleft()
        self.dropped_turns += 1
        _log.warning("an observed turn was dropped: %d wait for the server already", len(self._pending))

    async def _run(self) -> None:
        while True:
            await self._waiting.wait()
            await self._subscription.opened()
            if self._pending:  # taken only now: what waited for the session may have been replaced
                self._sequence += 1
                await self._deliver_or_drop(self._pending.popleft(), self._sequence)
            if not self._pending:
                self._waiting.clear()
                self._empty.set()

    async def _deliver_or_drop(self, taken: Observation, sequence: int) -> None:
        """Whatever is wrong with one observation, the next ones are sent."""
        try:
            await self._deliver(taken, sequence)
        except Exception as error:
            self._count_dropped(taken)
            if isinstance(error, PrecallError):
                _log.error("an observation was refused (%s): %s", error.reason, error.message)
            else:
                _log.exception("an observation could not be sent")

    async def _deliver(self, taken: Observation, sequence: int) -> None:
        """Until the server took it or a newer text replaced it. Raises what the server refused it with."""
        request = _request(self._subscription.session_id, sequence, taken, await self._vector(taken))
        backoff = Backoff(self._options.reconnect_initial_seconds, self._options.reconnect_maximum_seconds)
        self._subscription.note_observed(sequence, taken.observed_at)
        while not self._replaced(taken):
            await self._subscription.opened()
            try:
                await self._transport.call(
                    OBSERVE_TURN,
                    request,
                    deadline_seconds=self._options.observe_deadline_seconds,
                    retry=False,
                )
            except NotFound:
                self._subscription.lost()
                wait = backoff.next()
            except Overloaded as error:
                wait = error.retry_after_seconds or backoff.next()
            except (Unavailable, DeadlineExceeded):
                wait = backoff.next()
            else:
                return
            await asyncio.sleep(wait)

    async def _vector(self, taken: Observation) -> SpokenVector | None:
        if self._subscription.cache.complete:  # then the server predicts nothing
            return None
        return await self._vectors.of(taken.text, read_next=taken.role == "user" and not taken.partial)

    def _count_dropped(self, taken: Observation) -> None:
        if taken.partial:
            self.dropped_partials += 1
        else:
            self.dropped_turns += 1

    def _replaced(self, taken: Observation) -> bool:
        return taken.partial and any(waiting.turn_id == taken.turn_id for waiting in self._pending)


def _request(
    session_id: str, sequence: int, taken: Observation, vector: SpokenVector | None
) -> anticipation_pb2.ObserveTurnRequest:
    return anticipation_pb2.ObserveTurnRequest(
        session_id=session_id,
        sequence=sequence,
        role=_ROLE_TO_WIRE[taken.role],
        text=taken.text,
        partial=taken.partial,
        turn_id=taken.turn_id,
        said_time=convert.moment_to_wire(taken.said_time),
        used_memory_ids=taken.used_ids,
        query_vector=None
        if vector is None
        else convert.vector_to_wire(vector.vector, vector.model_fingerprint),
    )
