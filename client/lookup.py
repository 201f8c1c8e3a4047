"""What a look-up in the cache finds."""

from dataclasses import dataclass

from precall.client.held_items import CachedItem
from precall.scoring.coverage import Decision
from precall.scoring.ranking import Ranked


@dataclass(frozen=True, slots=True)
class FoundItem:
    """A held item, ranked for one query."""

    item: CachedItem
    ranked: Ranked


@dataclass(frozen=True, slots=True)
class Lookup:
    """The best held items, best first, and whether they may stand for the server's."""

    decision: Decision
    found: tuple[FoundItem, ...]
