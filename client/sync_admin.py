"""What an operator does, without ``await``."""

from collections.abc import Mapping, Sequence

from precall.client.admin import Admin as AsyncAdmin
from precall.client.admin import CreatedKey, Key, Tenant
from precall.client.loop_thread import LoopThread
from precall.client.migration import Migration


class Admin:
    """See ``precall.client.admin.Admin``."""

    def __init__(self, inner: AsyncAdmin, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    def create_tenant(self, tenant_id: str, *, ladder: Sequence[str] = ()) -> Tenant:
        return self._thread.run(self._inner.create_tenant(tenant_id, ladder=ladder))

    def get_tenant(self, tenant_id: str) -> Tenant:
        return self._thread.run(self._inner.get_tenant(tenant_id))

    def list_tenants(self) -> tuple[Tenant, ...]:
        return self._thread.run(self._inner.list_tenants())

    def delete_tenant(self, tenant_id: str) -> None:
        """Destroys the tenant with all its memories and keys."""
        self._thread.run(self._inner.delete_tenant(tenant_id))

    def create_key(
        self,
        tenant_id: str,
        *,
        role: str = "write",
        pinned_scope: Mapping[str, str] | None = None,
        label: str = "",
    ) -> CreatedKey:
        return self._thread.run(
            self._inner.create_key(tenant_id, role=role, pinned_scope=pinned_scope, label=label)
        )

    def list_keys(self, tenant_id: str) -> tuple[Key, ...]:
        return self._thread.run(self._inner.list_keys(tenant_id))

    def revoke_key(self, key_id: str) -> Key:
        return self._thread.run(self._inner.revoke_key(key_id))

    def start_migration(self, tenant_id: str, *, model: str = "") -> Migration:
        """Begin to make the other model's vectors; searches and writes go on as they were."""
        return self._thread.run(self._inner.start_migration(tenant_id, model=model))

    def get_migration(self, tenant_id: str) -> Migration:
        return self._thread.run(self._inner.get_migration(tenant_id))

    def end_migration(self, tenant_id: str, end: str) -> Migration:
        """``end``: "switch", "roll_back" or "finish"."""
        return self._thread.run(self._inner.end_migration(tenant_id, end))
