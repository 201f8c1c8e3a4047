"""Writing, reading and destroying memories of any scope: what the command line and ingestion use."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from precall.client import arguments, convert
from precall.client.errors import InvalidInput
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
from precall.client.methods import (
    DELETE_MEMORIES,
    FORGET_SCOPE,
    GET_HISTORY,
    GET_MEMORIES,
    LIST_MEMORIES,
    WRITE_MEMORIES,
)
from precall.client.options import ClientOptions
from precall.client.transport import Transport
from precall.proto import common_pb2, memory_pb2


class Memories:
    """Every call raises on failure. A ``request_id`` (a UUID; made here if None) makes its retry a no-op."""

    def __init__(self, transport: Transport, options: ClientOptions) -> None:
        self._transport = transport
        self._deadline_seconds = options.write_deadline_seconds

    async def write(
        self,
        scope: Mapping[str, str],
        drafts: Sequence[MemoryDraft],
        *,
        truncate: bool = False,
        request_id: str | None = None,
    ) -> tuple[Written, ...]:
        """All or nothing, in the order of the drafts; durable when it returns.

        ``truncate``: index the beginning of a text that is over the model's limit, instead of refusing it.
        """
        if not drafts:
            raise InvalidInput("there is nothing to write")
        wire_scope = convert.scope_to_wire(scope)
        response = await self._transport.call(
            WRITE_MEMORIES,
            memory_pb2.WriteMemoriesRequest(
                memories=convert.drafts_to_wire(drafts, wire_scope),
                request_id=arguments.request_id(request_id),
                truncate=truncate,
            ),
            deadline_seconds=self._deadline_seconds,
        )
        return tuple(
            Written(
                id=written.id,
                version=response.version,
                superseded_ids=tuple(written.superseded_ids),
                state="superseded" if written.state == common_pb2.MEMORY_STATE_SUPERSEDED else "current",
                truncated=written.usage.truncated,
            )
            for written in response.written
        )

    async def get(
        self, scope: Mapping[str, str], ids: Sequence[str], *, min_version: int = 0
    ) -> FoundMemories:
        """By id, as seen from this scope."""
        response = await self._transport.call(
            GET_MEMORIES,
            memory_pb2.GetMemoriesRequest(
                ids=arguments.uuid_texts(ids, "ids"),
                scope=convert.scope_to_wire(scope),
                min_version=arguments.version(min_version),
            ),
            deadline_seconds=self._deadline_seconds,
        )
        return FoundMemories(_memories(response.memories), tuple(response.missing_ids), response.version)

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
        """A page of exactly this rung, oldest first: of its memories that pass the filter."""
        request = memory_pb2.ListMemoriesRequest(
            scope=convert.scope_to_wire(scope),
            page_size=arguments.whole_number(
                page_size, "page_size", minimum=0, maximum=arguments.MAX_PAGE_SIZE
            ),
            page_token=arguments.text(page_token, "page_token"),
            filter=filter_to_wire(filter),
            include_history=include_history,
        )
        if as_of is not None:
            request.as_of.CopyFrom(convert.moment_to_wire(as_of, name="as_of"))
        response = await self._transport.call(LIST_MEMORIES, request, deadline_seconds=self._deadline_seconds)
        return MemoryPage(_memories(response.memories), response.next_page_token, response.version)

    async def history(self, scope: Mapping[str, str], key: str) -> tuple[Memory, ...]:
        """Every statement made under a key of this rung, the newest event first."""
        response = await self._transport.call(
            GET_HISTORY,
            memory_pb2.GetHistoryRequest(scope=convert.scope_to_wire(scope), key=arguments.text(key, "key")),
            deadline_seconds=self._deadline_seconds,
        )
        return _memories(response.memories)

    async def delete(
        self, scope: Mapping[str, str], ids: Sequence[str], *, request_id: str | None = None
    ) -> Forgotten:
        """Destroy memories that this scope may see, their history included.

        Returns when no client's cache can serve them any more: that may take as long as a lease.
        """
        if not ids:
            raise InvalidInput("there is nothing to forget: name at least one id")
        response = await self._transport.call(
            DELETE_MEMORIES,
            memory_pb2.DeleteMemoriesRequest(
                ids=arguments.uuid_texts(ids, "ids"),
                scope=convert.scope_to_wire(scope),
                request_id=arguments.request_id(request_id),
            ),
            deadline_seconds=self._deadline_seconds,
        )
        return Forgotten(response.version, tuple(response.deleted_ids), tuple(response.missing_ids))

    async def forget_scope(
        self, scope: Mapping[str, str], *, request_id: str | None = None
    ) -> ForgottenScope:
        """Destroy everything on a rung and on all rungs below it."""
        response = await self._transport.call(
            FORGET_SCOPE,
            memory_pb2.ForgetScopeRequest(
                scope=convert.scope_to_wire(scope), request_id=arguments.request_id(request_id)
            ),
            deadline_seconds=self._deadline_seconds,
        )
        return ForgottenScope(response.version, response.deleted)


def _memories(messages: Sequence[common_pb2.Memory]) -> tuple[Memory, ...]:
    return tuple(convert.memory_from_wire(message) for message in messages)
