"""What the server would refuse of a file of memories, found before anything is sent."""

from collections.abc import Mapping
from datetime import UTC, datetime

from precall.client import InvalidInput, MemoryDraft, convert
from precall.engine.memory.ladder import Ladder
from precall.server.mapping.memories import new_memory


class LineChecks:
    """Knows the lines that came before: ids and levels must agree over the whole file.

    Only what the file alone cannot tell is left to the server: whether the tenant has these levels, whether
    an id or an origin is stored there, and how many tokens a text has.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._origins: dict[str, int] = {}
        self._levels: dict[frozenset[str], int] = {}
        self._now = datetime.now(UTC)

    def check(self, number: int, scope: Mapping[str, str], draft: MemoryDraft) -> None:
        """One line, in the file's order. Raises an InvalidInput, of the client's tree or of the engine's."""
        message = convert.draft_to_wire(draft, convert.scope_to_wire(scope))
        memory = new_memory(message, Ladder(tuple(scope)), now=self._now)
        self._check_levels(number, frozenset(scope))
        for origin in memory.source.memory_ids:
            self._origins.setdefault(origin, number)
        if draft.id:
            self._check_id(number, memory.id)

    def _check_levels(self, number: int, levels: frozenset[str]) -> None:
        """Of two scopes on one ladder, one has all levels of the other."""
        if levels in self._levels:
            return
        for others, first in self._levels.items():
            if not (levels < others or others < levels):
                raise InvalidInput(
                    f"its scope names {', '.join(sorted(levels))}, that of line {first} "
                    f"{', '.join(sorted(others))}: no ladder has both, for levels are given from the top"
                )
        self._levels[levels] = number

    def _check_id(self, number: int, memory_id: str) -> None:
        first = self._ids.setdefault(memory_id, number)
        if first != number:
            raise InvalidInput(f"its id is that of line {first} as well")
        derived = self._origins.get(memory_id)
        if derived is not None:
            raise InvalidInput(
                f"its id is an origin (source.memory_ids) of line {derived}: it must stand before that line"
            )
