"""An answer before it is rendered, and its rendering."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from precall.client.read import Read, ReadDecision, ReadItem, ReadSource, ReadStatus
from precall.scoring import block
from precall.scoring.block import BlockItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Who answered what, and why; the fields mean what they mean in ``Read``."""

    items: tuple[ReadItem, ...]
    source: ReadSource
    decision: ReadDecision
    version: int
    staleness_seconds: float
    truncated: bool
    reason: str = ""
    degraded: bool = False

    @property
    def status(self) -> ReadStatus:
        if self.degraded:
            return ReadStatus.DEGRADED
        return ReadStatus.HIT if self.items else ReadStatus.EMPTY

    def relevant(self, minimum: float) -> Self:
        """The same answer without the items below ``minimum``: EMPTY when none is left."""
        return replace(self, items=relevant_items(self.items, minimum))

    def render(
        self, *, budget_tokens: int, encode_seconds: float, elapsed_seconds: Callable[[], float]
    ) -> Read:
        """The read, its block within the budget. ``elapsed_seconds`` is asked last: rendering counts too."""
        prompt = block.render(
            [
                BlockItem(
                    item.memory.id, item.rung, item.memory.kind, item.memory.event_time, item.memory.text
                )
                for item in self.items
            ],
            budget_tokens=budget_tokens,
        )
        return Read(
            text=prompt.text,
            items=self.items,
            included=prompt.included,
            source=self.source,
            status=self.status,
            decision=self.decision,
            reason=self.reason,
            encode_ms=encode_seconds * 1000,
            version=self.version,
            staleness_ms=self.staleness_seconds * 1000,
            truncated=self.truncated,
            elapsed_ms=elapsed_seconds() * 1000,
        )


def relevant_items(items: Iterable[ReadItem], minimum: float) -> tuple[ReadItem, ...]:
    """Those of at least this relevance, in their order.

    A cut of what was ranked already: who ranked it, cache or server, makes no difference to it.
    """
    return tuple(item for item in items if item.score.relevance >= minimum)
