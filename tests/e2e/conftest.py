"""Real parts end to end: the real model, a real server, the real client, a link between them."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from precall.bench.relay import LinkRelay
from precall.client import AsyncClient, ClientOptions, LocalEncoding
from precall.server.app import running_server
from precall.server.settings import ServerSettings

LEVELS = ("customer", "user")


@dataclass(frozen=True, slots=True)
class Served:
    """A server in this process with tenants ``acme`` and ``rival`` and a key for each."""

    target: str
    port: int
    keys: dict[str, str]

    def client(self, tenant: str = "acme", *, target: str | None = None, **options: object) -> AsyncClient:
        return AsyncClient(
            target or self.target,
            api_key=self.keys[tenant],
            options=ClientOptions(**options),  # type: ignore[arg-type]
        )


@asynccontextmanager
async def served(folder: Path, **settings: object) -> AsyncIterator[Served]:
    chosen = ServerSettings(data_dir=folder, port=0, metrics_port=0, **settings)  # type: ignore[arg-type]
    async with running_server(chosen) as endpoints:
        admin_key = (folder / "admin.key").read_text().strip()
        keys = {}
        no_reads = ClientOptions(local_encoding=LocalEncoding.OFF)
        async with AsyncClient(endpoints.target, api_key=admin_key, options=no_reads) as admin:
            known = {tenant.id for tenant in await admin.admin.list_tenants()}
            for tenant in ("acme", "rival"):
                if tenant not in known:
                    await admin.admin.create_tenant(tenant, ladder=LEVELS)
                keys[tenant] = (await admin.admin.create_key(tenant)).secret
        yield Served(endpoints.target, endpoints.port, keys)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path / "data", heartbeat_seconds=0.5, lease_seconds=3.0) as running:
        yield running


@pytest.fixture
async def link(server: Served) -> AsyncIterator[LinkRelay]:
    relay = LinkRelay("127.0.0.1", server.port, rtt_ms=4.0)
    await relay.start()
    yield relay
    await relay.close()


def scope(user: str = "dana", customer: str = "acme") -> dict[str, str]:
    return {"customer": customer, "user": user}


def conversation() -> str:
    return str(uuid.uuid4())
