"""An answer before it is rendered, and its rendering."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from precall.client.read import Read, ReadDecision, ReadItem, ReadSource, ReadStatus
from precall.client.read_times import ReadStage, ReadTimes
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

    def render(self, *, budget_tokens: int, times: ReadTimes) -> Read:
        """The read, its block within the budget; ``times`` ends with it."""
        with times.measure(ReadStage.BLOCK):
            prompt = block.render([_block_item(item) for item in self.items], budget_tokens=budget_tokens)
        return Read(
            text=prompt.text,
            items=self.items,
            included_ids=tuple(self.items[position].memory.id for position in prompt.included),
            source=self.source,
            status=self.status,
            decision=self.decision,
            reason=self.reason,
            version=self.version,
            staleness_ms=self.staleness_seconds * 1000,
            truncated=self.truncated,
            encode_ms=times.milliseconds(ReadStage.ENCODE),
            lookup_ms=times.milliseconds(ReadStage.LOOKUP),
            server_ms=times.milliseconds(ReadStage.SERVER),
            block_ms=times.milliseconds(ReadStage.BLOCK),
            elapsed_ms=times.total_milliseconds,
        )


def relevant_items(items: Iterable[ReadItem], minimum: float) -> tuple[ReadItem, ...]:
    """Those of at least this relevance, in their order.

    A cut of what was ranked already: who ranked it, cache or server, makes no difference to it.
    """
    return tuple(item for item in items if item.score.relevance >= minimum)


def join(
    answered: Iterable[ReadItem], held: Iterable[ReadItem], *, since: int, limit: int
) -> tuple[ReadItem, ...]:
    """The server's answer, best first, and from the cache what it could not know: memories written after
    version ``since``, where their totals put them. Items that both have keep the server's score and the
    predictor that had brought them here.
    """
    held = tuple(held)
    predictors = {item.memory.id: item.predictor for item in held}
    items = [replace(item, predictor=predictors.get(item.memory.id, "")) for item in answered]
    known = {item.memory.id for item in items}
    items += [item for item in held if item.memory.created_version > since and item.memory.id not in known]
    return tuple(sorted(items, key=lambda item: -item.score.total)[:limit])


def _block_item(item: ReadItem) -> BlockItem:
    memory = item.memory
    return BlockItem(memory.id, item.rung, memory.kind, memory.event_time, memory.text)
