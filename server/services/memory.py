"""Writing, reading and destroying memories."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import grpc.aio

from precall.engine.engine import Engine
from precall.engine.errors import (
    FingerprintMismatch,
    InvalidInput,
    PermissionDenied,
    PrecallError,
    VersionNotReached,
)
from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import NewMemory, Source
from precall.engine.memory.outcomes import DeleteOutcome, WriteOutcome
from precall.engine.preparing import GivenVector
from precall.engine.tenant import Tenant
from precall.proto import common_pb2, memory_pb2
from precall.proto.memory_pb2_grpc import MemoryServiceServicer
from precall.server.auth import Principal
from precall.server.call import current_call
from precall.server.mapping.filters import filter_of, passes
from precall.server.mapping.memories import memory_message, new_memory, source_of, state_message
from precall.server.mapping.values import (
    count,
    moment,
    optional_uuid,
    rung_of,
    stage_timings,
    uuid_list,
)
from precall.server.mapping.vectors import single_vector

Context = grpc.aio.ServicerContext[Any, Any]

DEFAULT_PAGE: Final = 100


class _Place(NamedTuple):
    """Where a caller stands: its tenant, and the rung that it named and may read."""

    tenant: Tenant
    rung: Rung


class MemoryService(MemoryServiceServicer):
    """One tenant's memories, as its keys may see and change them."""

    def __init__(self, engine: Engine, *, max_batch: int) -> None:
        self._engine = engine
        self._max_batch = max_batch

    async def WriteMemories(
        self, request: memory_pb2.WriteMemoriesRequest, context: Context
    ) -> memory_pb2.WriteMemoriesResponse:
        call = current_call()
        request_id = optional_uuid(request.request_id, "request_id")
        self._check_size(len(request.memories))
        tenant = await self._engine.tenant(call.principal.tenant)
        memories = self._new_memories(request.memories, tenant, call.principal)
        try:
            vectors = _given_vectors(request.memories, tenant)
        except FingerprintMismatch:  # of what was stored already the model may have been given up since
            outcome = await tenant.replayed(memories, request_id=request_id)
            if outcome is None:
                raise
        else:
            outcome = await tenant.write(
                memories,
                vectors,
                request_id=request_id,
                truncate=request.truncate,
                deadline=call.deadline,
                branch=call.principal.pinned,
            )
        usage = await _usage(tenant, outcome)
        return memory_pb2.WriteMemoriesResponse(
            version=outcome.version,
            written=[
                memory_pb2.WrittenMemory(
                    id=written.id,
                    state=state_message(written.state),
                    superseded_ids=written.superseded_ids,
                    usage=usage.get(written.id),
                )
                for written in outcome.written
            ],
            timings=stage_timings(call.finished_stages()),
            replayed=outcome.replayed,
        )

    async def GetMemories(
        self, request: memory_pb2.GetMemoriesRequest, context: Context
    ) -> memory_pb2.GetMemoriesResponse:
        ids = uuid_list(request.ids, "ids")
        tenant, rung = await self._readable(request.scope)
        if request.min_version > tenant.version:
            raise VersionNotReached(
                f"version {request.min_version} was asked for, this server holds {tenant.version}",
                metadata={"version": str(tenant.version)},
            )
        found = await asyncio.to_thread(tenant.store.get, ids, visible_from=rung)
        return memory_pb2.GetMemoriesResponse(
            memories=[memory_message(memory, tenant.ladder) for memory in found.memories],
            missing_ids=found.missing_ids,
            version=found.version,
        )

    async def ListMemories(
        self, request: memory_pb2.ListMemoriesRequest, context: Context
    ) -> memory_pb2.ListMemoriesResponse:
        asked = filter_of(request.filter)
        as_of = moment(request.as_of, "as_of") if request.HasField("as_of") else None
        limit = count(request.page_size, "page_size", default=DEFAULT_PAGE)
        tenant, rung = await self._readable(request.scope)
        page = await asyncio.to_thread(
            tenant.store.list_rung,
            rung,
            limit=limit,
            after_token=request.page_token,
            include_history=request.include_history,
            matching=None if asked.is_empty else lambda memory: passes(memory, asked),
            as_of=as_of,
        )
        return memory_pb2.ListMemoriesResponse(
            memories=[memory_message(memory, tenant.ladder) for memory in page.memories],
            next_page_token=page.next_token,
            version=page.version,
        )

    async def GetHistory(
        self, request: memory_pb2.GetHistoryRequest, context: Context
    ) -> memory_pb2.GetHistoryResponse:
        tenant, rung = await self._readable(request.scope)
        history = await asyncio.to_thread(tenant.store.history, rung, request.key)
        return memory_pb2.GetHistoryResponse(
            memories=[memory_message(memory, tenant.ladder) for memory in history.memories],
            version=history.version,
        )

    async def DeleteMemories(
        self, request: memory_pb2.DeleteMemoriesRequest, context: Context
    ) -> memory_pb2.DeleteMemoriesResponse:
        request_id = optional_uuid(request.request_id, "request_id")
        ids = uuid_list(request.ids, "ids")
        tenant, rung = await self._readable(request.scope)
        principal = current_call().principal
        await _require_deletable(principal, tenant, ids, rung)
        outcome = await tenant.delete(ids, visible_from=rung, request_id=request_id)
        return memory_pb2.DeleteMemoriesResponse(
            version=outcome.version,
            deleted_ids=_known_ids(principal, outcome),
            missing_ids=outcome.missing_ids,
            replayed=outcome.replayed,
        )

    async def ForgetScope(
        self, request: memory_pb2.ForgetScopeRequest, context: Context
    ) -> memory_pb2.ForgetScopeResponse:
        request_id = optional_uuid(request.request_id, "request_id")
        tenant, rung = await self._readable(request.scope)
        principal = current_call().principal
        principal.require_write(rung)
        outcome = await tenant.forget_scope(rung, request_id=request_id)
        return memory_pb2.ForgetScopeResponse(
            version=outcome.version, deleted=len(_known_ids(principal, outcome)), replayed=outcome.replayed
        )

    async def ForgetSource(
        self, request: memory_pb2.ForgetSourceRequest, context: Context
    ) -> memory_pb2.ForgetSourceResponse:
        request_id = optional_uuid(request.request_id, "request_id")
        source = source_of(request.source)
        if source == Source():
            raise InvalidInput("source is empty: give its conversation_id, turn_id, uri or memory_ids")
        tenant, rung = await self._readable(request.scope)
        principal = current_call().principal
        if principal.pinned is not None and principal.pinned.depth > 1:
            # It reaches every rung that the caller sees, and above the pinned one nothing may be changed.
            raise PermissionDenied("a pinned key may not forget a source: use DeleteMemories, or another key")
        principal.require_write(rung)
        outcome = await tenant.forget_source(source, visible_from=rung, request_id=request_id)
        return memory_pb2.ForgetSourceResponse(
            version=outcome.version,
            deleted_ids=_known_ids(principal, outcome),
            replayed=outcome.replayed,
        )

    async def _readable(self, scope: common_pb2.Scope) -> _Place:
        principal = current_call().principal
        tenant = await self._engine.tenant(principal.tenant)
        rung = rung_of(scope, tenant.ladder)
        principal.require_read(rung)
        return _Place(tenant, rung)

    def _check_size(self, memories: int) -> None:
        if not memories:
            raise InvalidInput("memories is empty: write at least one")
        if memories > self._max_batch:
            raise InvalidInput(f"{memories} memories, at most {self._max_batch}: split the batch")

    def _new_memories(
        self, messages: Sequence[common_pb2.MemoryInput], tenant: Tenant, principal: Principal
    ) -> list[NewMemory]:
        now = datetime.fromtimestamp(self._engine.clock.wall(), UTC)
        memories = []
        for position, message in enumerate(messages):
            try:
                memory = new_memory(message, tenant.ladder, now=now)
                principal.require_write(memory.rung)
            except PrecallError as error:
                raise error.at(position) from error
            memories.append(memory)
        return memories


def _given_vectors(messages: Sequence[common_pb2.MemoryInput], tenant: Tenant) -> list[GivenVector | None]:
    """Each of a model that the tenant has now. Raises FingerprintMismatch, InvalidVector, NotSupported."""
    vectors: list[GivenVector | None] = []
    for position, message in enumerate(messages):
        try:
            vectors.append(_given_vector(message.vector, tenant) if message.HasField("vector") else None)
        except PrecallError as error:
            raise error.at(position) from error
    return vectors


def _given_vector(message: common_pb2.Vectors, tenant: Tenant) -> GivenVector:
    card = tenant.model(message.model_fingerprint).card
    return GivenVector(single_vector(message, card, "vector"), card.fingerprint)


async def _require_deletable(principal: Principal, tenant: Tenant, ids: Sequence[str], rung: Rung) -> None:
    """A pinned key sees the rungs above its own, and must not destroy what stands there."""
    if principal.pinned is not None:
        found = await asyncio.to_thread(tenant.store.get, ids, visible_from=rung, include_expired=True)
        for memory in found.memories:
            principal.require_write(memory.rung)


def _known_ids(principal: Principal, outcome: DeleteOutcome) -> list[str]:
    """What went and the key may know of.

    What was derived from a deleted memory goes with it on every rung, for a summary must not outlive what it
    sums up; but that it stood on another user's rung is not for this key to learn.
    """
    return [deleted.id for deleted in outcome.deleted if principal.may_read(deleted.rung)]


async def _usage(tenant: Tenant, outcome: WriteOutcome) -> dict[str, common_pb2.TokenUsage]:
    """Token counts by memory id; what is not current any more is read back from the disk."""
    memories = {indexed.memory.id: indexed.memory for indexed in outcome.added}
    others = [written.id for written in outcome.written if written.id not in memories]
    if others:
        memories |= await asyncio.to_thread(tenant.store.memory_by_ids, others)
    return {
        memory.id: common_pb2.TokenUsage(
            given=memory.tokens_given,
            used=memory.tokens_used,
            truncated=memory.tokens_used < memory.tokens_given,
        )
        for memory in memories.values()
    }
