"""precall as its users meet it: a server on loopback, gRPC, real keys, a client with its cache."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import grpc.aio

from precall.client import AsyncSession
from precall.engine.encoding.encoder import Encoder
from precall.engine.engine import Engine, EngineSettings
from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory, Source
from precall.proto import admin_pb2, common_pb2, memory_pb2, retrieval_pb2
from precall.proto.admin_pb2_grpc import AdminServiceStub
from precall.proto.memory_pb2_grpc import MemoryServiceStub
from precall.proto.retrieval_pb2_grpc import RetrievalServiceStub
from precall.server import app
from precall.server.admin_key import read_admin_key
from precall.server.mapping.values import scope_of, timestamp_of
from precall.server.model import ServedModel
from precall.server.settings import ServerSettings
from tests.fakes.clock import FakeClock
from tests.fakes.reranker import WordReranker
from tests.properties.agents import DEADLINE, Agents
from tests.properties.engine_path import EnginePath, Tightness
from tests.properties.messages import filter_message, input_message, seen, source_message, vector_message
from tests.properties.service import LEVELS, Destroyed, Found, Given, Page, Refused, Seen, Standing, Wrote

_LADDER = Ladder(LEVELS)


class WirePath(EnginePath):
    """The same service by the network. What no call can do (evict, sweep, restore) is done inside."""

    def __init__(self, clock: FakeClock, tightness: Tightness) -> None:
        super().__init__(clock, tightness)
        self.keys: dict[str, str] = {}
        self.agents = Agents(clock)
        self._open = AsyncExitStack()

    async def start(self, data_dir: Path, models: Sequence[str]) -> None:
        self.data_dir = data_dir
        self.clock.advance(60.0)  # what an earlier process leased is over
        settings = ServerSettings.load(
            {
                "data_dir": data_dir, "port": 0, "metrics_port": 0, "heartbeat_seconds": 2.0,
                "lease_seconds": 20.0, "probe_seconds": 60.0, "drain_seconds": 0.2,
            },
            environment={},
        )  # fmt: skip
        primary, *others = (ServedModel(self.encoders[fingerprint], "fake") for fingerprint in models)
        model = replace(primary, reranker=WordReranker(), next=others[0] if others else None)
        with patch.object(app, "Engine", self._make_engine):
            running = app.running_server(settings, lambda _: model)
            self.endpoints = await self._open.enter_async_context(running)
        channel = grpc.aio.insecure_channel(self.endpoints.target)
        await self._open.enter_async_context(channel)
        self._admin = AdminServiceStub(channel)
        self._memories = MemoryServiceStub(channel)
        self._retrieval = RetrievalServiceStub(channel)

    def _make_engine(self, settings: EngineSettings, encoder: Encoder, **observers: Any) -> Engine:
        self._engine = Engine(self.tightness.applied_to(settings), encoder, clock=self.clock, **observers)
        return self._engine

    async def stop(self) -> None:
        await self.agents.hang_up()
        await self._open.aclose()
        self._open = AsyncExitStack()

    async def create(self, tenant: str) -> None:
        request = admin_pb2.CreateTenantRequest(id=tenant, ladder=LEVELS)
        await self._as_admin(self._admin.CreateTenant, request)
        self.keys[tenant] = await self.new_key(tenant)

    async def drop(self, tenant: str) -> None:
        await self.agents.hang_up()
        await self._as_admin(self._admin.DeleteTenant, admin_pb2.DeleteTenantRequest(id=tenant))

    async def restore(self, backup: Path, tenant: str) -> None:
        await super().restore(backup, tenant)
        self.keys[tenant] = await self.new_key(tenant)

    async def new_key(self, tenant: str, pinned: Rung | None = None) -> str:
        request = admin_pb2.CreateKeyRequest(tenant_id=tenant, role=admin_pb2.KEY_ROLE_WRITE)
        if pinned is not None:
            request.pinned_scope.CopyFrom(scope_of(pinned, _LADDER))
        return str((await self._as_admin(self._admin.CreateKey, request)).secret)

    async def write(
        self,
        tenant: str,
        batch: Sequence[NewMemory],
        request_id: str | None,
        given: Sequence[Given | None] = (),
        key: str = "",
    ) -> Wrote:
        vectors = given or [None] * len(batch)
        request = memory_pb2.WriteMemoriesRequest(
            memories=[
                input_message(each, _LADDER, vector) for each, vector in zip(batch, vectors, strict=True)
            ],
            request_id=request_id or "",
        )
        reply = await self._call(self._memories.WriteMemories, request, key or self.keys[tenant])
        written = [
            (each.id, each.state == common_pb2.MEMORY_STATE_CURRENT, tuple(each.superseded_ids))
            for each in reply.written
        ]
        return Wrote(reply.version, written, reply.replayed)

    async def delete(
        self, tenant: str, ids: Sequence[str], rung: Rung, request_id: str | None, key: str = ""
    ) -> Destroyed:
        request = memory_pb2.DeleteMemoriesRequest(
            ids=ids, scope=scope_of(rung, _LADDER), request_id=request_id or ""
        )
        reply = await self._call(self._memories.DeleteMemories, request, key or self.keys[tenant])
        deleted, missing = frozenset(reply.deleted_ids), frozenset(reply.missing_ids)
        return Destroyed(reply.version, len(deleted), reply.replayed, deleted, missing)

    async def forget_scope(self, tenant: str, rung: Rung, request_id: str | None) -> Destroyed:
        request = memory_pb2.ForgetScopeRequest(scope=scope_of(rung, _LADDER), request_id=request_id or "")
        reply = await self._call(self._memories.ForgetScope, request, self.keys[tenant])
        return Destroyed(reply.version, reply.deleted, reply.replayed)

    async def forget_source(
        self, tenant: str, source: Source, rung: Rung, request_id: str | None
    ) -> Destroyed:
        request = memory_pb2.ForgetSourceRequest(
            scope=scope_of(rung, _LADDER), source=source_message(source), request_id=request_id or ""
        )
        reply = await self._call(self._memories.ForgetSource, request, self.keys[tenant])
        deleted = frozenset(reply.deleted_ids)
        return Destroyed(reply.version, len(deleted), reply.replayed, deleted)

    async def search(
        self,
        tenant: str,
        rung: Rung,
        text: str,
        *,
        limit: int,
        asked: MemoryFilter | None = None,
        as_of: float | None = None,
        min_version: int = 0,
        by: str = "",
        mode: retrieval_pb2.SearchMode = retrieval_pb2.SEARCH_MODE_FAST,
        key: str = "",
    ) -> Found:
        request = retrieval_pb2.SearchRequest(
            scope=scope_of(rung, _LADDER), query=text, limit=limit, min_version=min_version, mode=mode
        )
        if by:
            request.query_vector.CopyFrom(vector_message(Given(by, text)))
        if asked is not None:
            request.filter.CopyFrom(filter_message(asked))
        if as_of is not None:
            request.as_of.CopyFrom(timestamp_of(as_of))
        reply = await self._call(self._retrieval.Search, request, key or self.keys[tenant])
        assert all(each.memory.state == common_pb2.MEMORY_STATE_CURRENT for each in reply.results)
        return Found(
            [(each.memory.id, each.score.total) for each in reply.results],
            {each.memory.id: each.memory.text for each in reply.results},
            reply.version,
            reply.visible,
            reply.model_fingerprint,
        )

    async def page(
        self,
        tenant: str,
        rung: Rung,
        *,
        size: int,
        token: str = "",
        asked: MemoryFilter | None = None,
        include_history: bool = False,
        as_of: float | None = None,
        key: str = "",
    ) -> Page:
        request = memory_pb2.ListMemoriesRequest(
            scope=scope_of(rung, _LADDER), page_size=size, page_token=token, include_history=include_history
        )
        if asked is not None:
            request.filter.CopyFrom(filter_message(asked))
        if as_of is not None:
            request.as_of.CopyFrom(timestamp_of(as_of))
        reply = await self._call(self._memories.ListMemories, request, key or self.keys[tenant])
        return Page(list(map(seen, reply.memories)), reply.next_page_token, reply.version)

    async def history(self, tenant: str, rung: Rung, key: str) -> list[Seen]:
        request = memory_pb2.GetHistoryRequest(scope=scope_of(rung, _LADDER), key=key)
        reply = await self._call(self._memories.GetHistory, request, self.keys[tenant])
        return list(map(seen, reply.memories))

    async def get(self, tenant: str, ids: Sequence[str], rung: Rung) -> list[Seen]:
        request = memory_pb2.GetMemoriesRequest(ids=ids, scope=scope_of(rung, _LADDER))
        reply = await self._call(self._memories.GetMemories, request, self.keys[tenant])
        return list(map(seen, reply.memories))

    async def step(self, tenant: str, step: str, goal: str) -> None:
        if step == "start":
            begin = admin_pb2.StartMigrationRequest(tenant_id=tenant, model=goal)
            await self._as_admin(self._admin.StartMigration, begin)
        else:
            end = f"MIGRATION_END_{step.upper().replace(' ', '_')}"
            request = admin_pb2.EndMigrationRequest(tenant_id=tenant, end=admin_pb2.MigrationEnd.Value(end))
            await self._as_admin(self._admin.EndMigration, request)

    async def standing(self, tenant: str) -> Standing | None:
        request = admin_pb2.GetMigrationRequest(tenant_id=tenant)
        try:
            told = await self._as_admin(self._admin.GetMigration, request)
        except Refused as refusal:
            if refusal.reason != "NOT_FOUND":
                raise
            return None
        return Standing(
            admin_pb2.MigrationState.Name(told.state).removeprefix("MIGRATION_STATE_"),
            told.from_fingerprint,
            told.to_fingerprint,
            told.serving_fingerprint,
            told.done,
            told.total,
            told.error,
        )

    async def session(self, tenant: str, rung: Rung, model: str) -> AsyncSession:
        """An agent's conversation on a rung; ``model``: that a new one has an encoder of."""
        target, key = self.endpoints.target, self.keys[tenant]
        return await self.agents.session(tenant, rung, target=target, key=key, model=model)

    async def _as_admin(self, method: Any, request: Any) -> Any:
        token = read_admin_key(self.data_dir)
        assert token is not None
        return await self._call(method, request, token)

    async def _call(self, method: Any, request: Any, key: str) -> Any:
        """Raises Refused."""
        try:
            return await method(request, metadata=(("authorization", f"Bearer {key}"),), timeout=DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise Refused(str(dict(error.trailing_metadata() or ())["precall-reason"])) from error
