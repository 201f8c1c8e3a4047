"""Writing, reading and destroying memories without ``await``."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from precall.client.filter import MemoryFilter
from precall.client.interface import AsyncMemoriesInterface
from precall.client.loop_thread import LoopThread
from precall.client.memory import (
    Forgotten,
    ForgottenScope,
    FoundMemories,
    Memory,
    MemoryDraft,
    MemoryPage,
    Written,
)


class Memories:
    """See ``precall.client.memories.Memories``."""

    def __init__(self, inner: AsyncMemoriesInterface, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    def write(
        self,
        scope: Mapping[str, str],
        drafts: Sequence[MemoryDraft],
        *,
        truncate: bool = False,
        request_id: str | None = None,
    ) -> tuple[Written, ...]:
        """All or nothing; durable when it returns."""
        return self._thread.run(self._inner.write(scope, drafts, truncate=truncate, request_id=request_id))

    def get(self, scope: Mapping[str, str], ids: Sequence[str], *, min_version: int = 0) -> FoundMemories:
        """By id, as seen from this scope."""
        return self._thread.run(self._inner.get(scope, ids, min_version=min_version))

    def list(
        self,
        scope: Mapping[str, str],
        *,
        page_size: int = 100,
        page_token: str = "",
        filter: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: datetime | None = None,
    ) -> MemoryPage:
        """A page of exactly this rung, oldest first: of its memories that pass the filter."""
        return self._thread.run(
            self._inner.list(
                scope,
                page_size=page_size,
                page_token=page_token,
                filter=filter,
                include_history=include_history,
                as_of=as_of,
            )
        )

    def history(self, scope: Mapping[str, str], key: str) -> tuple[Memory, ...]:
        """Every statement made under a key of this rung, the newest event first."""
        return self._thread.run(self._inner.history(scope, key))

    def delete(
        self, scope: Mapping[str, str], ids: Sequence[str], *, request_id: str | None = None
    ) -> Forgotten:
        """Destroy memories that this scope may see, their history included."""
        return self._thread.run(self._inner.delete(scope, ids, request_id=request_id))

    def forget_scope(self, scope: Mapping[str, str], *, request_id: str | None = None) -> ForgottenScope:
        """Destroy everything on a rung and on all rungs below it."""
        return self._thread.run(self._inner.forget_scope(scope, request_id=request_id))
