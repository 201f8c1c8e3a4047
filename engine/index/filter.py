"""Which memories a search may return: what the caller said beside the query."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from precall.engine.memory.memory import Memory, MemoryKind

Facet: TypeAlias = tuple[str, str] | tuple[str, str, str]
"""A property that a memory has or has not: ``("key", value)``, ``("metadata", name, value)`` and so on."""


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Fields are joined by AND, the values of one field by OR; metadata entries must all be there.

    An empty field asks for nothing. ``event_from`` is inclusive, ``event_until`` exclusive, both UTC.
    """

    kinds: frozenset[MemoryKind] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict)
    event_from: datetime | None = None
    event_until: datetime | None = None
    conversation_ids: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    pinned_only: bool = False

    def alternatives(self) -> Iterator[frozenset[Facet]]:
        """Sets of facets, of each of which a memory must have at least one."""
        if self.kinds:
            yield frozenset(("kind", kind.value) for kind in self.kinds)
        for name, value in self.metadata.items():
            yield frozenset({("metadata", name, value)})
        if self.conversation_ids:
            yield frozenset(("conversation", value) for value in self.conversation_ids)
        if self.keys:
            yield frozenset(("key", value) for value in self.keys)
        if self.pinned_only:
            yield frozenset({("pinned", "true")})

    @property
    def is_empty(self) -> bool:
        return self.event_from is None and self.event_until is None and not any(self.alternatives())


def facets_of(memory: Memory) -> Iterator[Facet]:
    """Everything that a filter can ask of a memory, save its event time; and its key's family, which
    predictors ask for.
    """
    yield ("kind", memory.kind.value)
    if memory.pinned:
        yield ("pinned", "true")
    if memory.source.conversation_id:
        yield ("conversation", memory.source.conversation_id)
    if memory.key:
        yield ("key", memory.key)
    if family := key_family(memory.key):
        yield ("family", family)
    for name, value in memory.metadata.items():
        yield ("metadata", name, value)


def key_family(key: str) -> str:
    """What keys of one subject have in common: all up to the last of `.`, `:` and `/`, or nothing."""
    end = max(key.rfind("."), key.rfind(":"), key.rfind("/"))
    return key[: end + 1] if end > 0 else ""
