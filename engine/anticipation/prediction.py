"""Running the predictors: one prediction a session at a time, always from the newest observation."""

import asyncio
from collections.abc import Callable, Sequence

from precall.engine.anticipation.events import Push
from precall.engine.anticipation.observer import AnticipationObserver
from precall.engine.anticipation.predictor import Predictor, Situation
from precall.engine.anticipation.session import Session
from precall.engine.clock import Clock
from precall.engine.errors import PrecallError


class Prediction:
    """Turns observations into pushes, in tasks of its own."""

    def __init__(
        self,
        predictors: Sequence[Predictor],
        clock: Clock,
        observer: AnticipationObserver,
        is_live: Callable[[Session], bool],
        send: Callable[[Session, Sequence[Push]], int],
        *,
        part_items: int,
    ) -> None:
        self._predictors = predictors
        self._clock = clock
        self._observer = observer
        self._is_live = is_live
        self._send = send
        self._part_items = part_items
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self, session: Session) -> None:
        """Predict for a session; while that runs, newer observations replace each other, none queues up."""
        session.outdated = True
        if not session.predicting:
            session.predicting = True
            task = asyncio.create_task(self._run(session), name=f"predict {session.id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, session: Session) -> None:
        try:
            while session.outdated and self._is_live(session):
                session.outdated = False
                started = self._clock.monotonic()
                for predictor in self._predictors:
                    await self._propose(predictor, session)
                self._observer.predicted(self._clock.monotonic() - started)
        finally:
            session.predicting = False

    async def _propose(self, predictor: Predictor, session: Session) -> None:
        caused_at, caused_by_sequence = session.observed_at, session.sequence
        situation = Situation(
            session.model, session.partitions, session.conversation, session.announced_version
        )
        try:
            proposals = await predictor.propose(situation)
        except PrecallError as error:  # a guess that could not be made costs nothing but the guess
            self._observer.prediction_failed(error.reason)
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
