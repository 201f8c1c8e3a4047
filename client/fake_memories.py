"""``client.memories`` of a fake client."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from precall.client import arguments, convert
from precall.client.errors import InvalidInput
from precall.client.fake_store import FakeStore
from precall.client.filter import MemoryFilter, filter_to_wire
from precall.client.memory import (
    Forgotten,
    ForgottenScope,
    FoundMemories,
    Memory,
    MemoryDraft,
    MemoryPage,
    Written,
)


class FakeMemories:
    """See ``precall.client.memories.Memories``. ``check`` raises when the pretended server is away."""

    def __init__(self, store: FakeStore, check: Callable[[], None]) -> None:
        self._store = store
        self._check = check

    async def write(
        self,
        scope: Mapping[str, str],
        drafts: Sequence[MemoryDraft],
        *,
        truncate: bool = False,
        request_id: str | None = None,
    ) -> tuple[Written, ...]:
        if not drafts:
            raise InvalidInput("there is nothing to write")
        self._check()
        return self._store.write(scope, drafts, arguments.request_id(request_id))

    async def get(
        self, scope: Mapping[str, str], ids: Sequence[str], *, min_version: int = 0
    ) -> FoundMemories:
        self._check()
        found = {
            memory_id: self._store.get(scope, memory_id) for memory_id in arguments.uuid_texts(ids, "ids")
        }
        return FoundMemories(
            tuple(memory for memory in found.values() if memory is not None),
            tuple(memory_id for memory_id, memory in found.items() if memory is None),
            self._store.version,
        )

    async def list(
        self,
        scope: Mapping[str, str],
        *,
        page_size: int = 100,
        page_token: str = "",
        filter: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: datetime | None = None,
    ) -> MemoryPage:
        """The page token is the number of memories that came before."""
        if as_of is not None:
            convert.moment_to_wire(as_of, name="as_of")
        filter_to_wire(filter)
        self._check()
        asked = filter or MemoryFilter()
        on_rung = self._store.on_rung(scope, include_history=include_history, as_of=as_of)
        memories = [memory for memory in on_rung if asked.admits(memory)]
        first = int(page_token or 0)
        last = first + (page_size or 100)
        return MemoryPage(
            tuple(memories[first:last]), str(last) if last < len(memories) else "", self._store.version
        )

    async def history(self, scope: Mapping[str, str], key: str) -> tuple[Memory, ...]:
        self._check()
        return self._store.history(scope, key)

    async def delete(
        self, scope: Mapping[str, str], ids: Sequence[str], *, request_id: str | None = None
    ) -> Forgotten:
        if not ids:
            raise InvalidInput("there is nothing to forget: name at least one id")
        self._check()
        return self._store.delete(scope, arguments.uuid_texts(ids, "ids"), arguments.request_id(request_id))

    async def forget_scope(
        self, scope: Mapping[str, str], *, request_id: str | None = None
    ) -> ForgottenScope:
        self._check()
        return self._store.forget_scope(scope, arguments.request_id(request_id))
