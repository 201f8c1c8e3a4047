"""What was asked of a server that is killed again and again, what it has acked, and what must hold of it."""

import random
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

BATCH: Final = 3
USERS: Final = ("dana", "omar", "li", "eve")
"""A batch stands on the rung of one of them."""


class BrokenPromise(AssertionError):
    """What the server did must not happen."""


@dataclass(slots=True)
class Ledger:
    """A memory is named by its batch and its place there.

    Invariant: ``gone`` is a part of ``doubtful``; whatever is acked and not in ``doubtful`` must stand.
    """

    sent: int = 0
    acked: set[int] = field(default_factory=set)
    unanswered: deque[int] = field(default_factory=deque)
    """Batches that nothing was heard of: they are sent again, under the same request id."""

    doubtful: set[str] = field(default_factory=set)
    """Memories that somebody was asked to destroy, or that were written beside such a request."""

    gone: set[str] = field(default_factory=set)
    """Memories whose destruction is acked."""

    _forgetting: list[str] = field(default_factory=list)
    """Users whose rung is being forgotten now: what is written there meanwhile may go with it or not."""

    def next_batch(self) -> int:
        if self.unanswered:
            batch = self.unanswered.popleft()
        else:
            batch = self.sent
            self.sent += 1
        if user_of(batch) in self._forgetting:
            self.doubtful |= names_of(batch)
        return batch

    def deletable(self, chance: random.Random) -> str | None:
        """A memory that is acked and that nobody was asked to destroy; None if there is none among a few."""
        for _ in range(8):
            if self.acked:
                name = memory_id(chance.randrange(self.sent), chance.randrange(BATCH))
                if name not in self.doubtful and batch_of(name) in self.acked:
                    return name
        return None

    @contextmanager
    def destroying(self, names: Iterable[str]) -> Iterator[None]:
        """Around a request that names what it destroys; leaving by an exception leaves it in doubt."""
        certain = frozenset(names)
        self.doubtful |= certain
        yield
        self.gone |= certain

    @contextmanager
    def forgetting(self, user: str) -> Iterator[None]:
        """Around a request that destroys a user's rung."""
        certain = {name for batch in self.acked if user_of(batch) == user for name in names_of(batch)}
        for batch in range(self.sent):
            if user_of(batch) == user:
                self.doubtful |= names_of(batch)
        self._forgetting.append(user)
        try:
            yield
            self.gone |= certain
        finally:
            self._forgetting.remove(user)

    def check(self, stored: Sequence[str]) -> None:
        """``stored``: ids of everything that the server lists. Raises BrokenPromise."""
        held = set(stored)
        acked = {name for batch in self.acked for name in names_of(batch)}
        promise(len(held) == len(stored), "a memory is there twice")
        promise(acked - self.doubtful <= held, "something acked is lost")
        self.check_absence(stored)
        promise(all(0 <= batch_of(name) < self.sent for name in held), "something is there that nobody wrote")
        for batch in {batch_of(name) for name in held}:
            promise(names_of(batch) - self.doubtful <= held, "a batch is there in part")

    def check_absence(self, served: Iterable[str]) -> None:
        """``served``: ids of some of what the server holds. Raises BrokenPromise."""
        promise(self.gone.isdisjoint(served), "something deleted came back")


def user_of(batch: int) -> str:
    return USERS[batch % len(USERS)]


def memory_id(batch: int, place: int) -> str:
    return str(uuid.UUID(int=(batch + 1) * 16 + place))


def names_of(batch: int) -> set[str]:
    return {memory_id(batch, place) for place in range(BATCH)}


def batch_of(name: str) -> int:
    return uuid.UUID(name).int // 16 - 1


def promise(kept: bool, fault: str) -> None:
    """Raises BrokenPromise."""
    if not kept:
        raise BrokenPromise(fault)
