"""What caches served, compared with what the server says, off the path of the reads."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from precall.client.background import start_background
from precall.client.clock import Clock
from precall.client.errors import PrecallError
from precall.client.read import ReadItem, SearchResult
from precall.client.strictness import Strictness

TOP: Final = 3
"""A served answer must hold the server's best so many."""
TIE: Final = 1e-4
"""Totals nearer than this are equal: the two sides date recency, and embed the query, each by itself."""
_SHORTEST_INTERVAL_SECONDS: Final = 1.0


class Verdict(Enum):
    """What a check found. UNCLEAR: the memories changed meanwhile, and the difference may come from that."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Served:
    """What a cache answered, best first, or would have: ``limit`` were asked for, at ``version``."""

    items: Sequence[ReadItem]
    limit: int
    version: int

    def compare(self, answer: SearchResult) -> Verdict:
        """``answer``: the server's to the same question, of this version or a later one."""
        totals = {item.memory.id: item.score.total for item in self.items}
        lowest = min(totals.values()) if len(totals) >= self.limit else float("-inf")
        missing = [
            item
            for item in answer.items[:TOP]
            if item.memory.id not in totals and item.score.total > lowest + TIE
        ]
        if not missing:
            return Verdict.RIGHT
        changed = answer.version != self.version and self._explains(missing, answer)
        return Verdict.UNCLEAR if changed else Verdict.WRONG

    def _explains(self, missing: Sequence[ReadItem], answer: SearchResult) -> bool:
        """Whether what changed after ``version`` can be why these are missing: one of them was written
        since, or something served that stood before one of them is gone, so that it moved up.
        """
        if any(item.memory.created_version > self.version for item in missing):
            return True
        answered = {item.memory.id for item in answer.items}
        gone = [item.score.total for item in self.items if item.memory.id not in answered]
        return max(gone, default=float("-inf")) > min(item.score.total for item in missing) + TIE


class LiveChecks:
    """Shared by the sessions of one client: one check at a time, and at most one a second.

    ``share`` of the reads that a cache was sure of are checked. They are answered before their check begins.
    """

    def __init__(
        self, *, share: float, wrong_bar: float, clock: Clock, draw: Callable[[], float] = random.random
    ) -> None:
        """``draw``: a number in [0, 1) each time."""
        self.strictness = Strictness(wrong_bar)
        self._share = share
        self._clock = clock
        self._draw = draw
        self._running: asyncio.Task[Verdict | None] | None = None
        self._begun_at = float("-inf")

    def take_turn(self) -> bool:
        """Whether this read is one of those to check, now."""
        if self._draw() >= self._share or self._running is not None:
            return False
        now = self._clock.elapsed()
        if now - self._begun_at < _SHORTEST_INTERVAL_SECONDS:
            return False
        self._begun_at = now
        return True

    def start(
        self,
        served: Served,
        ask: Callable[[], Awaitable[SearchResult]],
        done: Callable[[Verdict | None], None],
    ) -> asyncio.Task[Verdict | None]:
        """Compare with what ``ask`` brings, in the background.

        ``done`` hears the verdict, once: None if there was no answer, or the task was cancelled.
        """
        task = start_background(self._check(served, ask), name="precall-check")
        self._running = task

        def ended(task: asyncio.Task[Verdict | None]) -> None:
            self._running = None
            failed = task.cancelled() or task.exception() is not None
            done(None if failed else task.result())

        task.add_done_callback(ended)
        return task

    def compare(self, served: Served, answer: SearchResult) -> Verdict:
        """The verdict, which counts from now on."""
        verdict = served.compare(answer)
        if verdict is not Verdict.UNCLEAR:
            self.strictness.note(wrong=verdict is Verdict.WRONG)
        return verdict

    async def _check(self, served: Served, ask: Callable[[], Awaitable[SearchResult]]) -> Verdict | None:
        try:
            answer = await ask()
        except PrecallError:
            return None
        return self.compare(served, answer)
