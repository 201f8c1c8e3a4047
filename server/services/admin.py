"""Tenants, their keys, and the change of their model."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc.aio

from precall.engine.engine import Engine
from precall.engine.errors import (
    InvalidInput,
    MigrationRefused,
    NotFound,
    TenantNotFound,
    TenantQuarantined,
)
from precall.engine.memory.ladder import DEFAULT_LEVELS, Ladder
from precall.engine.migration.migrating import MigrationReport
from precall.engine.models import Model
from precall.engine.tenant import Tenant
from precall.proto import admin_pb2
from precall.proto.admin_pb2_grpc import AdminServiceServicer
from precall.server.call import current_call
from precall.server.keys import Key, KeyStore
from precall.server.mapping.keys import key_message, role_of
from precall.server.mapping.migration import migration_message
from precall.server.mapping.values import count

Context = grpc.aio.ServicerContext[Any, Any]

DEFAULT_PAGE: Final = 100

_STEPS: Final[dict[int, Callable[[Tenant], Awaitable[MigrationReport]]]] = {
    admin_pb2.MIGRATION_END_SWITCH: lambda tenant: tenant.migrating.switch(),
    admin_pb2.MIGRATION_END_ROLL_BACK: lambda tenant: tenant.migrating.roll_back(),
    admin_pb2.MIGRATION_END_FINISH: lambda tenant: tenant.migrating.finish(),
}


class AdminService(AdminServiceServicer):
    """What an operator does; the gate has checked that an admin calls."""

    def __init__(self, engine: Engine, keys: KeyStore) -> None:
        self._engine = engine
        self._keys = keys

    async def CreateTenant(
        self, request: admin_pb2.CreateTenantRequest, context: Context
    ) -> admin_pb2.Tenant:
        ladder = Ladder(tuple(request.ladder) or DEFAULT_LEVELS)
        if not self._engine.registry.exists(request.id):
            # A crash in the middle of a deletion may have left some: they must not open the new tenant.
            await asyncio.to_thread(self._keys.remove_tenant, request.id)
        tenant = await self._engine.create_tenant(request.id, ladder)
        return await self._describe(tenant)

    async def GetTenant(self, request: admin_pb2.GetTenantRequest, context: Context) -> admin_pb2.Tenant:
        current_call().principal.require_tenant(request.id)
        return await self._open_and_describe(request.id)

    async def ListTenants(
        self, request: admin_pb2.ListTenantsRequest, context: Context
    ) -> admin_pb2.ListTenantsResponse:
        """Tenants by id. One that is on disk alone is listed with its id and health: no file is opened."""
        limit = count(request.page_size, "page_size", default=DEFAULT_PAGE)
        ids = await asyncio.to_thread(self._engine.tenant_ids)
        rest = [tenant_id for tenant_id in ids if tenant_id > request.page_token]
        page = rest[:limit]
        return admin_pb2.ListTenantsResponse(
            tenants=[await self._describe_briefly(tenant_id) for tenant_id in page],
            next_page_token=page[-1] if len(rest) > limit else "",
        )

    async def DeleteTenant(
        self, request: admin_pb2.DeleteTenantRequest, context: Context
    ) -> admin_pb2.DeleteTenantResponse:
        # The keys last: with them the tenant's clients confirm that they have dropped what they held.
        await self._engine.delete_tenant(request.id)
        await asyncio.to_thread(self._keys.remove_tenant, request.id)
        return admin_pb2.DeleteTenantResponse()

    async def CreateKey(
        self, request: admin_pb2.CreateKeyRequest, context: Context
    ) -> admin_pb2.CreateKeyResponse:
        current_call().principal.require_tenant(request.tenant_id)
        role = role_of(request.role)
        pinned_scope = None
        if request.tenant_id:
            tenant = await self._engine.tenant(request.tenant_id)
            if request.HasField("pinned_scope"):
                # Through the ladder and back: checked, and in the order of its levels.
                scope = dict(request.pinned_scope.levels)
                pinned_scope = tenant.ladder.scope(tenant.ladder.rung(scope))
        elif request.HasField("pinned_scope"):
            raise InvalidInput("pinned_scope needs a tenant_id: scopes are a tenant's")
        issued = await asyncio.to_thread(
            self._keys.issue,
            tenant_id=request.tenant_id or None,
            role=role,
            label=request.label,
            pinned_scope=pinned_scope,
        )
        return admin_pb2.CreateKeyResponse(key=key_message(issued.key), secret=issued.token)

    async def ListKeys(
        self, request: admin_pb2.ListKeysRequest, context: Context
    ) -> admin_pb2.ListKeysResponse:
        current_call().principal.require_tenant(request.tenant_id)
        if request.tenant_id:
            self._require_tenant(request.tenant_id)
        keys: Sequence[Key] = self._keys.of_tenant(request.tenant_id or None)
        return admin_pb2.ListKeysResponse(keys=[key_message(key) for key in keys])

    async def RevokeKey(
        self, request: admin_pb2.RevokeKeyRequest, context: Context
    ) -> admin_pb2.RevokeKeyResponse:
        principal = current_call().principal
        key = self._keys.get(request.id)
        if principal.tenant_id is not None and key.tenant_id != principal.tenant_id:
            raise NotFound(f"there is no key {request.id!r}")
        return admin_pb2.RevokeKeyResponse(
            key=key_message(await asyncio.to_thread(self._keys.revoke, request.id))
        )

    async def BackUpTenant(
        self, request: admin_pb2.BackUpTenantRequest, context: Context
    ) -> admin_pb2.BackUpTenantResponse:
        """Of what stands now, while others read and write."""
        tenant = await self._engine.tenant(request.tenant_id)
        folder = _folder(request.destination)
        backup = await asyncio.to_thread(tenant.store.back_up, folder)
        return admin_pb2.BackUpTenantResponse(
            path=str(backup.path),
            version=backup.version,
            size_bytes=backup.size_bytes,
            sha256=backup.sha256,
        )

    async def StartMigration(
        self, request: admin_pb2.StartMigrationRequest, context: Context
    ) -> admin_pb2.Migration:
        tenant = await self._engine.tenant(request.tenant_id)
        report = await tenant.migrating.start(self._next_model(tenant, request.model))
        return self._migration(tenant, report)

    async def GetMigration(
        self, request: admin_pb2.GetMigrationRequest, context: Context
    ) -> admin_pb2.Migration:
        tenant = await self._engine.tenant(request.tenant_id)
        return self._migration(tenant, await tenant.migrating.report())

    async def EndMigration(
        self, request: admin_pb2.EndMigrationRequest, context: Context
    ) -> admin_pb2.Migration:
        step = _STEPS.get(request.end)
        if step is None:
            raise InvalidInput("end must be SWITCH, ROLL_BACK or FINISH")
        tenant = await self._engine.tenant(request.tenant_id)
        return self._migration(tenant, await step(tenant))

    def _next_model(self, tenant: Tenant, asked: str) -> Model:
        """The model of that name or fingerprint, or the one that does not serve. Raises NotFound,
        InvalidInput, MigrationRefused.
        """
        models = self._engine.models
        if asked:
            return models.named(asked)
        serving = tenant.model().fingerprint
        other = next((model for model in models if model.fingerprint != serving), None)
        if other is None:
            raise MigrationRefused(
                f"this server runs {models.described} and no other: start it with the setting next_model"
            )
        return other

    def _migration(self, tenant: Tenant, report: MigrationReport) -> admin_pb2.Migration:
        """Raises NotFound where there never was one."""
        message = migration_message(tenant.id, report, self._engine.models)
        if message is None:
            raise NotFound(f"tenant {tenant.id!r} has no migration: its model was never changed")
        return message

    async def _describe_briefly(self, tenant_id: str) -> admin_pb2.Tenant:
        if not self._engine.is_open(tenant_id):
            return admin_pb2.Tenant(id=tenant_id, health=admin_pb2.TENANT_HEALTH_COLD)
        return await self._open_and_describe(tenant_id)

    async def _open_and_describe(self, tenant_id: str) -> admin_pb2.Tenant:
        """One that is damaged is told of as such: it must not hide the others."""
        try:
            return await self._describe(await self._engine.tenant(tenant_id))
        except TenantQuarantined:
            return admin_pb2.Tenant(id=tenant_id, health=admin_pb2.TENANT_HEALTH_QUARANTINED)

    async def _describe(self, tenant: Tenant) -> admin_pb2.Tenant:
        counts = await asyncio.to_thread(tenant.store.counts)
        return admin_pb2.Tenant(
            id=tenant.id,
            ladder=tenant.ladder.levels,
            version=tenant.version,
            memories=sum(rung.current for rung in counts),
            model_fingerprint=tenant.store.model_fingerprint,
            health=admin_pb2.TENANT_HEALTH_READY,
        )

    def _require_tenant(self, tenant_id: str) -> None:
        if not self._engine.registry.exists(tenant_id):
            raise TenantNotFound(f"there is no tenant {tenant_id!r}")


def _folder(destination: str) -> Path:
    if not destination or "\x00" in destination:
        raise InvalidInput("destination is empty or no path: name a folder on the server's machine")
    return Path(destination)
