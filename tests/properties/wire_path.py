"""precall as its users meet it: a server on loopback, gRPC, real keys, a client with its cache."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import grpc.aio

from precall.client import AsyncClient, AsyncSession, ClientOptions
from precall.engine.encoding.encoder import Encoder
from precall.engine.engine import Engine, EngineSettings
from precall.engine.index.filter import MemoryFilter
from precall.engine.memory.ladder import Ladder, Rung
from precall.engine.memory.memory import NewMemory, Source
from precall.engine.residency import ResidencySettings
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
from tests.properties.engine_path import EnginePath, Tightness
from tests.properties.messages import filter_message, input_message, seen, source_message
from tests.properties.service import LEVELS, Destroyed, Found, Page, Refused, Seen, Wrote
from tests.properties.vectors import LocalFakeEncoder

_LADDER = Ladder(LEVELS)
_DEADLINE = 30.0


class AgentClock:
    """Of an agent on the server's machine: its wall clock is the server's, its spans are real."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def wall(self) -> float:
        return self._clock.wall()

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()


class WirePath(EnginePath):
    """The same service by the network. What no call can do (evict, sweep, restore) is done inside."""

    def __init__(self, clock: FakeClock, tightness: Tightness) -> None:
        super().__init__(clock, tightness)
        self.keys: dict[str, str] = {}
        self.sessions: dict[tuple[str, Rung], AsyncSession] = {}
        self._open = AsyncExitStack()
        self._conversations = AsyncExitStack()

    async def start(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.clock.advance(60.0)  # what an earlier process leased is over
        settings = ServerSettings.load(
            {
                "data_dir": data_dir, "port": 0, "metrics_port": 0, "heartbeat_seconds": 2.0,
                "lease_seconds": 20.0, "probe_seconds": 60.0, "drain_seconds": 0.2,
            },
            environment={},
        )  # fmt: skip
        model = ServedModel(self.encoder, "fake", reranker=WordReranker())
        with patch.object(app, "Engine", self._make_engine):
            running = app.running_server(settings, lambda _: model)
            self.endpoints = await self._open.enter_async_context(running)
        channel = grpc.aio.insecure_channel(self.endpoints.target)
        await self._open.enter_async_context(channel)
        self._admin = AdminServiceStub(channel)
        self._memories = MemoryServiceStub(channel)
        self._retrieval = RetrievalServiceStub(channel)

    def _make_engine(self, settings: EngineSettings, encoder: Encoder, **observers: Any) -> Engine:
        tightness = self.tightness
        residency = ResidencySettings(budget_bytes=tightness.budget_bytes, open_files=tightness.open_files)
        settings = replace(settings, partitions=tightness.partitions, residency=residency)
        self._engine = Engine(settings, encoder, clock=self.clock, **observers)
        return self._engine

    async def stop(self) -> None:
        await self.hang_up()
        await self._open.aclose()
        self._open = AsyncExitStack()

    async def hang_up(self) -> None:
        """Every agent's conversation ends."""
        self.sessions.clear()
        await self._conversations.aclose()
        self._conversations = AsyncExitStack()

    async def create(self, tenant: str) -> None:
        request = admin_pb2.CreateTenantRequest(id=tenant, ladder=LEVELS)
        await self._as_admin(self._admin.CreateTenant, request)
        self.keys[tenant] = await self.new_key(tenant)

    async def drop(self, tenant: str) -> None:
        await self.hang_up()
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
        self, tenant: str, batch: Sequence[NewMemory], request_id: str | None, key: str = ""
    ) -> Wrote:
        request = memory_pb2.WriteMemoriesRequest(
            memories=[input_message(each, _LADDER) for each in batch], request_id=request_id or ""
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
        mode: retrieval_pb2.SearchMode = retrieval_pb2.SEARCH_MODE_FAST,
        key: str = "",
    ) -> Found:
        request = retrieval_pb2.SearchRequest(
            scope=scope_of(rung, _LADDER), query=text, limit=limit, min_version=min_version, mode=mode
        )
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

    async def session(self, tenant: str, rung: Rung) -> AsyncSession:
        """An agent's conversation on a rung, its cache filled; one that is open stays so."""
        if (tenant, rung) not in self.sessions:
            client = AsyncClient(
                self.endpoints.target,
                api_key=self.keys[tenant],
                options=ClientOptions(read_deadline_ms=20_000),
                encoder=LocalFakeEncoder(),
                clock=AgentClock(self.clock),
            )
            await self._conversations.enter_async_context(client)
            session = client.session(_LADDER.scope(rung))
            await self._conversations.enter_async_context(session)
            assert await session.ready(_DEADLINE)
            self.sessions[tenant, rung] = session
        return self.sessions[tenant, rung]

    async def _as_admin(self, method: Any, request: Any) -> Any:
        token = read_admin_key(self.data_dir)
        assert token is not None
        return await self._call(method, request, token)

    async def _call(self, method: Any, request: Any, key: str) -> Any:
        """Raises Refused."""
        try:
            return await method(request, metadata=(("authorization", f"Bearer {key}"),), timeout=_DEADLINE)
        except grpc.aio.AioRpcError as error:
            raise Refused(str(dict(error.trailing_metadata() or ())["precall-reason"])) from error
