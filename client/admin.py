"""Tenants, their keys, and the change of their model. Needs an admin key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from precall.client import arguments, convert
from precall.client.errors import InvalidInput
from precall.client.methods import (
    CREATE_KEY,
    CREATE_TENANT,
    DELETE_TENANT,
    END_MIGRATION,
    GET_MIGRATION,
    GET_TENANT,
    LIST_KEYS,
    LIST_TENANTS,
    REVOKE_KEY,
    START_MIGRATION,
)
from precall.client.migration import MIGRATION_ENDS, Migration, migration_from_wire
from precall.client.options import ClientOptions
from precall.client.transport import Transport
from precall.proto import admin_pb2

KEY_ROLES: Final = ("read", "write", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """``health`` is "ready", "cold", "quarantined" or "unknown"; ``ladder`` names the levels from the top.

    ``model_fingerprint``: of the model that serves it. A cold one's facts, but for its id, are not known.
    """

    id: str
    ladder: tuple[str, ...]
    created_at: datetime
    version: int
    memories: int
    model_fingerprint: str
    health: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is known of an API key; its secret is not."""

    id: str
    tenant_id: str
    role: str
    pinned_scope: Mapping[str, str]
    created_at: datetime
    revoked_at: datetime | None
    label: str


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """``secret`` is the API key itself: it is told once and stored nowhere."""

    key: Key
    secret: str = field(repr=False)


class Admin:
    """Every call raises on failure. Creating is not tried again by itself: it may have happened."""

    def __init__(self, transport: Transport, options: ClientOptions) -> None:
        self._transport = transport
        self._deadline_seconds = options.write_deadline_seconds

    async def create_tenant(self, tenant_id: str, *, ladder: Sequence[str] = ()) -> Tenant:
        """``ladder``: level names from the top, fixed for the tenant's life; empty: customer, user."""
        response = await self._transport.call(
            CREATE_TENANT,
            admin_pb2.CreateTenantRequest(
                id=arguments.text(tenant_id, "tenant_id"), ladder=arguments.texts(ladder, "ladder")
            ),
            deadline_seconds=self._deadline_seconds,
            retry=False,
        )
        return _tenant(response)

    async def get_tenant(self, tenant_id: str) -> Tenant:
        response = await self._transport.call(
            GET_TENANT,
            admin_pb2.GetTenantRequest(id=arguments.text(tenant_id, "tenant_id")),
            deadline_seconds=self._deadline_seconds,
        )
        return _tenant(response)

    async def list_tenants(self) -> tuple[Tenant, ...]:
        """All of them, page by page."""
        tenants: list[Tenant] = []
        token = ""
        while True:
            response = await self._transport.call(
                LIST_TENANTS,
                admin_pb2.ListTenantsRequest(page_token=token),
                deadline_seconds=self._deadline_seconds,
            )
            tenants.extend(_tenant(message) for message in response.tenants)
            token = response.next_page_token
            if not token:
                return tuple(tenants)

    async def delete_tenant(self, tenant_id: str) -> None:
        """Destroys the tenant with all its memories and keys."""
        await self._transport.call(
            DELETE_TENANT,
            admin_pb2.DeleteTenantRequest(id=arguments.text(tenant_id, "tenant_id")),
            deadline_seconds=self._deadline_seconds,
        )

    async def create_key(
        self,
        tenant_id: str,
        *,
        role: str = "write",
        pinned_scope: Mapping[str, str] | None = None,
        label: str = "",
    ) -> CreatedKey:
        """A pinned key is good for that rung and those above it alone. ``role`` is one of ``KEY_ROLES``."""
        if role not in KEY_ROLES:
            raise InvalidInput(f"role {role!r} is unknown, use one of {', '.join(KEY_ROLES)}")
        request = admin_pb2.CreateKeyRequest(
            tenant_id=arguments.text(tenant_id, "tenant_id"),
            role=f"KEY_ROLE_{role.upper()}",
            label=arguments.text(label, "label"),
        )
        if pinned_scope is not None:
            request.pinned_scope.CopyFrom(convert.scope_to_wire(pinned_scope))
        response = await self._transport.call(
            CREATE_KEY, request, deadline_seconds=self._deadline_seconds, retry=False
        )
        return CreatedKey(_key(response.key), response.secret)

    async def list_keys(self, tenant_id: str) -> tuple[Key, ...]:
        response = await self._transport.call(
            LIST_KEYS,
            admin_pb2.ListKeysRequest(tenant_id=arguments.text(tenant_id, "tenant_id")),
            deadline_seconds=self._deadline_seconds,
        )
        return tuple(_key(message) for message in response.keys)

    async def revoke_key(self, key_id: str) -> Key:
        response = await self._transport.call(
            REVOKE_KEY,
            admin_pb2.RevokeKeyRequest(id=arguments.text(key_id, "key_id")),
            deadline_seconds=self._deadline_seconds,
        )
        return _key(response.key)

    async def start_migration(self, tenant_id: str, *, model: str = "") -> Migration:
        """Begin to make the other model's vectors; searches and writes go on as they were.

        ``model``: one that the server runs, by name or fingerprint; empty: the one that does not serve the
        tenant. Returns at once; ``get_migration`` tells how far it is.
        """
        response = await self._transport.call(
            START_MIGRATION,
            admin_pb2.StartMigrationRequest(
                tenant_id=arguments.text(tenant_id, "tenant_id"), model=arguments.text(model, "model")
            ),
            deadline_seconds=self._deadline_seconds,
            retry=False,
        )
        return migration_from_wire(response)

    async def get_migration(self, tenant_id: str) -> Migration:
        """The one in progress, or the last one. Raises NotFound when there was none."""
        response = await self._transport.call(
            GET_MIGRATION,
            admin_pb2.GetMigrationRequest(tenant_id=arguments.text(tenant_id, "tenant_id")),
            deadline_seconds=self._deadline_seconds,
        )
        return migration_from_wire(response)

    async def end_migration(self, tenant_id: str, end: str) -> Migration:
        """Take the next step, one of ``MIGRATION_ENDS``.

        Raises MigrationRefused when the state does not allow it; the message says what to do instead.
        """
        if end not in MIGRATION_ENDS:
            raise InvalidInput(f"end {end!r} is unknown, use one of {', '.join(MIGRATION_ENDS)}")
        response = await self._transport.call(
            END_MIGRATION,
            admin_pb2.EndMigrationRequest(
                tenant_id=arguments.text(tenant_id, "tenant_id"), end=f"MIGRATION_END_{end.upper()}"
            ),
            deadline_seconds=self._deadline_seconds,
            retry=False,
        )
        return migration_from_wire(response)


def _tenant(message: admin_pb2.Tenant) -> Tenant:
    return Tenant(
        id=message.id,
        ladder=tuple(message.ladder),
        created_at=convert.moment_from_wire(message.created_at),
        version=message.version,
        memories=message.memories,
        model_fingerprint=message.model_fingerprint,
        health=convert.enumeration_name(admin_pb2.TenantHealth, message.health, "TENANT_HEALTH_"),
    )


def _key(message: admin_pb2.Key) -> Key:
    return Key(
        id=message.id,
        tenant_id=message.tenant_id,
        role=convert.enumeration_name(admin_pb2.KeyRole, message.role, "KEY_ROLE_"),
        pinned_scope=dict(message.pinned_scope.levels),
        created_at=convert.moment_from_wire(message.created_at),
        revoked_at=convert.moment_from_wire(message.revoked_at) if message.HasField("revoked_at") else None,
        label=message.label,
    )
