"""Memories of a large rung as they were last asked for, so that what is made of them is made once."""

from collections.abc import Callable
from typing import Final

from precall.engine.memory.memory import IndexedMemory

MOST: Final = 4_096
"""Some 5 kB each, with their form on the wire."""


class LatelyPushed:
    """Id -> memory, the first that came going first. Its owner locks, and drops whatever it drops itself."""

    def __init__(self) -> None:
        self._held: dict[str, IndexedMemory] = {}

    def get(self, memory_id: str) -> IndexedMemory | None:
        return self._held.get(memory_id)

    def keep(self, indexed: IndexedMemory) -> None:
        self._held[indexed.memory.id] = indexed
        if len(self._held) > MOST:
            del self._held[next(iter(self._held))]

    def drop(self, memory_id: str) -> None:
        self._held.pop(memory_id, None)

    def clear(self) -> None:
        self._held.clear()

    def check_integrity(self, made: Callable[[str], IndexedMemory]) -> None:
        """Raise AssertionError where one is not what would be made of it now; for tests."""
        for memory_id, indexed in self._held.items():
            now = made(memory_id)
            assert indexed.memory is now.memory and indexed.impacts == now.impacts
            assert (indexed.vector == now.vector).all()
