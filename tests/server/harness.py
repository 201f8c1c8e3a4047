"""A real server in this process, and callers of it that hold one key each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from fakes.encoder import FakeEncoder
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from precall.engine.encoding.reranker import Reranker
from precall.proto import (
    admin_pb2,
    anticipation_pb2,
    common_pb2,
    embedding_pb2,
    memory_pb2,
    retrieval_pb2,
)
from precall.server.admin_key import read_admin_key
from precall.server.app import Endpoints, running_server
from precall.server.model import ServedModel
from precall.server.settings import ServerSettings

SERVICES: dict[str, ServiceDescriptor] = {
    name: service
    for file in (admin_pb2, anticipation_pb2, embedding_pb2, memory_pb2, retrieval_pb2)
    for name, service in file.DESCRIPTOR.services_by_name.items()
}

METHODS: dict[str, MethodDescriptor] = {
    f"{service.name}/{method.name}": method for service in SERVICES.values() for method in service.methods
}

ACME = {"customer": "acme"}
DANA = {"customer": "acme", "user": "dana"}
ELI = {"customer": "acme", "user": "eli"}


def scope(levels: dict[str, str]) -> common_pb2.Scope:
    return common_pb2.Scope(levels=levels)


class Caller:
    """Calls methods by their name, as the holder of one key; ``token`` None sends no credential."""

    def __init__(self, channel: grpc.aio.Channel, token: str | None) -> None:
        self._channel = channel
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self.token = token

    async def __call__(self, method: str, request: Any = None, **fields: Any) -> Any:
        descriptor = METHODS[method]
        if request is None:
            request = GetMessageClass(descriptor.input_type)(**fields)
        path = f"/precall.v1.{method}"
        reply = GetMessageClass(descriptor.output_type)
        if descriptor.server_streaming:
            call = self._channel.unary_stream(path, type(request).SerializeToString, reply.FromString)
            return [message async for message in call(request, metadata=self._metadata, timeout=10)]
        unary = self._channel.unary_unary(path, type(request).SerializeToString, reply.FromString)
        return await unary(request, metadata=self._metadata, timeout=10)

    def stream(self, method: str, **fields: Any) -> Any:
        """The call itself; read it with ``read()`` and end it with ``cancel()``."""
        descriptor = METHODS[method]
        request = GetMessageClass(descriptor.input_type)(**fields)
        call = self._channel.unary_stream(
            f"/precall.v1.{method}",
            type(request).SerializeToString,
            GetMessageClass(descriptor.output_type).FromString,
        )
        return call(request, metadata=self._metadata)


@dataclass(slots=True)
class Stage:
    """A running server with its encoder, and callers made from its keys. ``next_encoder``: its second one."""

    endpoints: Endpoints
    settings: ServerSettings
    encoder: FakeEncoder
    channel: grpc.aio.Channel
    admin: Caller
    next_encoder: FakeEncoder | None = None

    def caller(self, token: str | None) -> Caller:
        return Caller(self.channel, token)

    async def tenant(self, tenant_id: str, *ladder: str) -> Caller:
        """A new tenant's caller with the role write."""
        await self.admin("AdminService/CreateTenant", id=tenant_id, ladder=ladder)
        return await self.key(tenant_id)

    async def key(self, tenant_id: str, **fields: Any) -> Caller:
        issued = await self.admin("AdminService/CreateKey", tenant_id=tenant_id, **fields)
        return self.caller(issued.secret)


def settings_for(data_dir: Path, **changes: Any) -> ServerSettings:
    """Quick settings on free ports."""
    given = {
        "data_dir": data_dir,
        "port": 0,
        "metrics_port": 0,
        "heartbeat_seconds": 0.1,
        "lease_seconds": 0.5,
        "probe_seconds": 0.05,
        "drain_seconds": 0.2,
    }
    return ServerSettings.load(given | changes, environment={})


@asynccontextmanager
async def running_stage(
    data_dir: Path,
    encoder: FakeEncoder | None = None,
    reranker: Reranker | None = None,
    next_encoder: FakeEncoder | None = None,
    **changes: Any,
) -> AsyncIterator[Stage]:
    settings = settings_for(data_dir, **changes)
    encoder = encoder if encoder is not None else FakeEncoder()
    following = None if next_encoder is None else ServedModel(next_encoder, "fake-too")
    model = ServedModel(encoder, "fake", reranker=reranker, next=following)
    async with (
        running_server(settings, lambda _: model) as endpoints,
        grpc.aio.insecure_channel(endpoints.target) as channel,
    ):
        token = read_admin_key(data_dir)
        assert token is not None
        yield Stage(endpoints, settings, encoder, channel, Caller(channel, token), next_encoder)


async def remember(caller: Caller, levels: dict[str, str], *texts: str, **fields: Any) -> list[str]:
    """Write texts on a rung; returns their ids."""
    reply = await caller(
        "MemoryService/WriteMemories",
        memories=[common_pb2.MemoryInput(scope=scope(levels), text=text, **fields) for text in texts],
    )
    return [written.id for written in reply.written]


async def search(caller: Caller, levels: dict[str, str], query: str, **fields: Any) -> list[str]:
    """The texts that a search finds, best first."""
    reply = await caller("RetrievalService/Search", scope=scope(levels), query=query, **fields)
    return [result.memory.text for result in reply.results]
