"""Running the predictors: each by itself, one run a session at a time, always from what is newest."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from precall.engine.anticipation.cue import NOTHING, Cue
from precall.engine.anticipation.events import Push
from precall.engine.anticipation.observer import AnticipationObserver
from precall.engine.anticipation.predictor import Learner, Predictor, Proposal, Situation
from precall.engine.anticipation.session import Session
from precall.engine.change import Change
from precall.engine.clock import Clock
from precall.engine.errors import PrecallError

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Run:
    """A predictor at work for a session, and what has happened since it last looked."""

    cue: Cue


class Prediction:
    """Turns what happens in sessions into pushes, in tasks of its own.

    A predictor that takes its time holds up no other one; what happens meanwhile is what it is asked about
    next, and nothing queues up.
    """

    def __init__(
        self,
        predictors: Sequence[Predictor],
        clock: Clock,
        observer: AnticipationObserver,
        is_live: Callable[[Session], bool],
        send: Callable[[Session, Sequence[Push]], int],
        *,
        part_items: int,
        learners: Sequence[Learner] = (),
    ) -> None:
        """``learners``: those of the predictors that remember beyond a conversation."""
        self._predictors = predictors
        self._learners = learners
        self._clock = clock
        self._observer = observer
        self._is_live = is_live
        self._send = send
        self._part_items = part_items
        self._runs: dict[tuple[Session, str], _Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self, session: Session) -> None:
        """The session holds its complete rungs, and nothing was said."""
        self.request(session, Cue.OPENED)

    def observed(self, session: Session, cue: Cue) -> None:
        """``cue``: what `Conversation.observe` said of the observation."""
        if Cue.USED in cue:
            session.held.use(session.conversation.used[0])
            situation = self._situation(session, cue)
            for learner in self._learners:
                learner.learn(situation)
        self.request(session, cue)

    def ended(self, session: Session) -> None:
        """The session's cache is gone, or its client."""
        session.held.end()
        self._report_fates(session)

    def forget(self, change: Change) -> None:
        """Nothing that was learned may name a memory that is no more."""
        again = {indexed.memory.id for indexed in change.added}
        gone = [removed.id for removed in change.removed if removed.id not in again]
        for learner in self._learners if gone else ():
            learner.forget(change.tenant_id, gone)

    def forget_tenant(self, tenant_id: str) -> None:
        for learner in self._learners:
            learner.forget_tenant(tenant_id)

    def request(self, session: Session, cue: Cue = Cue.SAID) -> None:
        """Ask the predictors that have something to say on the occasion, unless all is held already."""
        if session.claims.wholly_complete:
            return
        for predictor in self._predictors:
            if concerning := predictor.cues & cue:
                self._ask(predictor, session, concerning)

    async def settle(self) -> None:
        """Return once no predictor is at work; for tests and measurements."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ask(self, predictor: Predictor, session: Session, cue: Cue) -> None:
        if (run := self._runs.get((session, predictor.name))) is not None:
            run.cue |= cue
            return
        run = self._runs[session, predictor.name] = _Run(cue)
        task = asyncio.create_task(
            self._run(predictor, session, run), name=f"{predictor.name} for session {session.id}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, predictor: Predictor, session: Session, run: _Run) -> None:
        try:
            while run.cue:
                await session.room()
                if not self._is_live(session):
                    return
                cue, run.cue = run.cue, NOTHING
                started = self._clock.monotonic()
                await self._propose(predictor, session, cue)
                self._observer.predicted(predictor.name, self._clock.monotonic() - started)
        finally:
            del self._runs[session, predictor.name]

    async def _propose(self, predictor: Predictor, session: Session, cue: Cue) -> None:
        caused_at, caused_by_sequence = session.observed_at, session.sequence
        try:
            proposals = await predictor.propose(self._situation(session, cue))
        except PrecallError as error:  # a guess that could not be made costs nothing but the guess
            self._observer.prediction_failed(predictor.name, error.reason)
            return
        except Exception:  # nor may a fault in one predictor be the end of it, or go unseen
            self._observer.prediction_failed(predictor.name, PrecallError.reason)
            _logger.exception("predictor %s failed", predictor.name)
            return
        if not self._is_live(session):  # what it holds must not change any more: nobody would be told
            return
        for proposal in proposals:
            pushes = session.answer_push(
                proposal,
                caused_at=caused_at,
                caused_by_sequence=caused_by_sequence,
                part_items=self._part_items,
            )
            self._send(session, pushes)
            self._report_fates(session)
        if Cue.SAID in cue:
            self._note_found(session, proposals)

    def _note_found(self, session: Session, proposals: Sequence[Proposal]) -> None:
        """What the words of the conversation found is an occasion to look further."""
        found = next((each.memory_ids for each in proposals if each.query is not None), ())
        if found:
            session.conversation.found_ids = found
            self.request(session, Cue.FOUND)

    def _report_fates(self, session: Session) -> None:
        for fate in session.held.take_fates():
            self._observer.dropped(fate.predictor, fate.items, used=fate.used)

    def _situation(self, session: Session, cue: Cue) -> Situation:
        return Situation(
            session.model,
            session.partitions,
            session.conversation,
            session.announced_version,
            session.tenant_id,
            session.conversation_id,
            frozenset(session.claims.complete),
            cue,
            session.held.max_items,
        )
