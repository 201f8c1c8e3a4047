"""What a look-up in the cache finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from precall.client.held_items import CachedItem
from precall.proto import common_pb2
from precall.scoring.coverage import Decision
from precall.scoring.ranking import Ranked
from precall.scoring.value_kinds import ValueKind, asked_kind, holds

_HAPPENINGS: Final = frozenset(
    (
        common_pb2.MEMORY_KIND_EPISODE,
        common_pb2.MEMORY_KIND_EVENT,
        common_pb2.MEMORY_KIND_EMOTION,
    )
)
"""Their date is shown beside them and says when they were: they answer a question for a time."""


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A held item, ranked for one query."""

    item: CachedItem
    ranked: Ranked


@dataclass(frozen=True, slots=True)
class Lookup:
    """The best held items, best first, and whether they may stand for the server's.

    ``confidence``: the log-odds of that, where a calibration was asked.
    """

    decision: Decision
    found: tuple[FoundItem, ...]
    confidence: float | None = None


def lacks_asked_value(question: str, found: Sequence[FoundItem]) -> bool:
    """Whether the question asks for a kind of value that none of the items holds."""
    kind = asked_kind(question)
    return kind is not None and not any(_holds(each.item, kind) for each in found)


def _holds(item: CachedItem, kind: ValueKind) -> bool:
    if kind is ValueKind.TIME and item.memory.kind in _HAPPENINGS:
        return True
    return holds(item.memory.text, kind)
