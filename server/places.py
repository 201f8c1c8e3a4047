"""How many calls may be in progress at once, and for whom some places are kept."""

from collections import Counter
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
    """Places for unary calls. A flood of bulk work fills its share of them and never all, and a tenant has
    at most half of either, so that no tenant's flood takes the places of the others.

    Invariant: ``running`` and ``running_bulk`` are those of the calls inside ``taken``, of all tenants, and
    no more than their limits.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bulk_limit = max(1, limit - limit // _KEPT)
        self._running: Counter[str | None] = Counter()
        self._running_bulk: Counter[str | None] = Counter()

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def running_bulk(self) -> int:
        return self._running_bulk.total()

    @contextmanager
    def taken(self, method: str, tenant: str | None) -> Iterator[None]:
        """A place for as long as the context lasts. Raises Overloaded at once if there is none.

        ``tenant``: None for the server's own keys, which share a tenant's part.
        """
        is_bulk = method in BULK_METHODS
        self._require_place(tenant)
        if is_bulk:
            self._require_bulk_place(method, tenant)
        taken = [self._running, self._running_bulk] if is_bulk else [self._running]
        for counts in taken:
            counts[tenant] += 1
        try:
            yield
        finally:
            for counts in taken:
                counts[tenant] -= 1
                if not counts[tenant]:
                    del counts[tenant]  # else every tenant that ever called would be remembered

    def _require_place(self, tenant: str | None) -> None:
        if self.running >= self.limit:
            raise _refusal(f"{self.running} calls are in progress, as many as this server takes")
        if self._running[tenant] >= _half(self.limit):
            raise _refusal(f"{self._running[tenant]} calls of yours are in progress, as many as a tenant may")

    def _require_bulk_place(self, method: str, tenant: str | None) -> None:
        if self.running_bulk >= self.bulk_limit:
            raise _refusal(
                f"{self.running_bulk} calls like {method} are in progress; the other places are kept for "
                "conversations"
            )
        if self._running_bulk[tenant] >= _half(self.bulk_limit):
            raise _refusal(
                f"{self._running_bulk[tenant]} calls of yours like {method} are in progress, as many as a "
                "tenant may"
            )


def _half(limit: int) -> int:
    """Rounded up, so that a server of one place has one for somebody."""
    return -(-limit // 2)


def _refusal(message: str) -> Overloaded:
    return Overloaded(message, retry_after_seconds=RETRY_SECONDS)
