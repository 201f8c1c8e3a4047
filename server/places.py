"""How many calls may be in progress at once, and for whom some places are kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from precall.engine.errors import Overloaded

RETRY_SECONDS: Final = 0.1

BULK_METHODS: Final = frozenset(
    {
        "EmbeddingService/Embed",
        "EmbeddingService/Rerank",
        "MemoryService/WriteMemories",
        "MemoryService/ListMemories",
    }
)
"""What a flood is made of. A conversation in progress needs none of them to read."""

_KEPT: Final = 4
"""One place in so many is kept for the other methods."""


class Places:
    """Places for unary calls. A flood of bulk work fills its share of them and never all.

    Invariant: ``running`` and ``running_bulk`` are those of the calls inside ``taken``, and no more than
    their limits.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bulk_limit = max(1, limit - limit // _KEPT)
        self.running = 0
        self.running_bulk = 0

    @contextmanager
    def taken(self, method: str) -> Iterator[None]:
        """A place for as long as the context lasts. Raises Overloaded at once if there is none."""
        is_bulk = method in BULK_METHODS
        if self.running >= self.limit:
            raise Overloaded(
                f"{self.running} calls are in progress, as many as this server takes",
                retry_after_seconds=RETRY_SECONDS,
            )
        if is_bulk and self.running_bulk >= self.bulk_limit:
            raise Overloaded(
                f"{self.running_bulk} calls like {method} are in progress; the other places are kept for "
                "conversations",
                retry_after_seconds=RETRY_SECONDS,
            )
        self.running += 1
        self.running_bulk += is_bulk
        try:
            yield
        finally:
            self.running -= 1
            self.running_bulk -= is_bulk
