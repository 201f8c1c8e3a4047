"""An answer before it is rendered, and its rendering."""

from collections.abc import Callable
from dataclasses import dataclass

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
