"""What one session writes and destroys, so that its own reads can demand to see it."""

from collections.abc import Mapping, Sequence

from precall.client import arguments
from precall.client.memories import Memories
from precall.client.memory import Forgotten, MemoryDraft, Written
from precall.client.subscription import Subscription


class SessionWrites:
    """Writes on the session's rung, and remembers the newest version that they made."""

    def __init__(self, scope: Mapping[str, str], memories: Memories, subscription: Subscription) -> None:
        self._scope = scope
        self._memories = memories
        self._cache = subscription.cache
        self._written = subscription.written

    def demanded(self, min_version: int | None) -> int:
        """The version that a read must reflect: what its caller asks for, and at least what was written."""
        if min_version is None:
            return self._written.version
        return max(arguments.version(min_version), self._written.version)

    async def write(
        self, drafts: Sequence[MemoryDraft], *, truncate: bool, request_id: str | None
    ) -> list[Written]:
        """All or none. Raises on failure."""
        written = await self._memories.write(self._scope, drafts, truncate=truncate, request_id=request_id)
        self._written.note(max(each.version for each in written))
        return list(written)

    async def forget(self, ids: Sequence[str], *, request_id: str | None) -> Forgotten:
        """Destroyed there and no longer held here. Raises on failure."""
        forgotten = await self._memories.delete(self._scope, ids, request_id=request_id)
        self._cache.invalidate(forgotten.deleted_ids, version=forgotten.version, superseded=False)
        return forgotten
