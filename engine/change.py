"""What a committed write did to the current memories of a tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import IndexedMemory
from precall.engine.memory.outcomes import RemovedMemory


class ChangeCause(Enum):
    WRITTEN = "written"
    SUPERSEDED = "superseded"
    DELETED = "deleted"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Change:
    """Memories that became current and that ceased to be, at one version of one tenant.

    One that is in both has other keyword weights now, and everything else of it stands: whoever holds it
    drops it and gets it again. ``removed_terms``: the keyword terms of the removed ones, whose frequencies
    fell.
    """

    tenant_id: str
    version: int
    cause: ChangeCause
    added: Sequence[IndexedMemory] = ()
    removed: Sequence[RemovedMemory] = ()
    removed_terms: frozenset[str] = frozenset()

    @property
    def rungs(self) -> frozenset[Rung]:
        """Where something became current or ceased to be."""
        return frozenset((*(each.memory.rung for each in self.added), *(each.rung for each in self.removed)))
