"""Who calls: from the call's metadata to a principal, and what that principal may touch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from precall.engine.errors import PermissionDenied, Unauthenticated
from precall.engine.memory.ladder import Rung
from precall.server.access import Need
from precall.server.keys import KeyStore, Role

HEADER: Final = "authorization"
_SCHEME: Final = "Bearer "


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. ``tenant_id`` None: the server's own admin. ``pinned``: the rung that the key is bound to."""

    key_id: str
    role: Role
    tenant_id: str | None
    pinned: Rung | None = None

    @property
    def tenant(self) -> str:
        """The caller's tenant. Raises PermissionDenied for a key of the server, which has none."""
        if self.tenant_id is None:
            raise PermissionDenied("this is an admin key of the server: memories need a tenant's key")
        return self.tenant_id

    def require(self, need: Need) -> None:
        """Raises PermissionDenied, saying what would do."""
        if not self._meets(need):
            raise PermissionDenied(f"this call needs {need.value}")

    def _meets(self, need: Need) -> bool:
        match need:
            case Need.KEY:
                return True
            case Need.READ:
                return self.tenant_id is not None
            case Need.WRITE:
                return self.tenant_id is not None and self.role.covers(Role.WRITE)
            case Need.MANAGE_KEYS:
                return self.role is Role.ADMIN
            case Need.MANAGE_SERVER:
                return self.role is Role.ADMIN and self.tenant_id is None

    def require_read(self, rung: Rung) -> None:
        """A pinned key reads its rung, those above it and those below it. Raises PermissionDenied."""
        if not self.may_read(rung):
            raise PermissionDenied("this key is pinned to another scope")

    def may_read(self, rung: Rung) -> bool:
        """Whether the key may know what stands on the rung."""
        return self.pinned is None or self.pinned.is_in_line_with(rung)

    def require_write(self, rung: Rung) -> None:
        """A pinned key changes its rung and those below it: what stands above belongs to others as well."""
        if self.pinned is not None and not self.pinned.is_visible_from(rung):
            raise PermissionDenied("this key is pinned to a scope, and changes nothing outside of it")

    def require_tenant(self, tenant_id: str) -> None:
        """An admin of one tenant manages that one alone. Raises PermissionDenied."""
        if self.tenant_id is not None and self.tenant_id != tenant_id:
            raise PermissionDenied("this key manages its own tenant alone")


def identify(keys: KeyStore, metadata: Iterable[tuple[str, str | bytes]]) -> Principal:
    """The caller by its ``authorization: Bearer`` header.

    Raises Unauthenticated, with the same words whether the key is missing, unknown or revoked.
    """
    values = [value for name, value in metadata if name == HEADER]
    token = values[0] if len(values) == 1 else None
    if isinstance(token, str) and token.startswith(_SCHEME):
        key = keys.find(token.removeprefix(_SCHEME).strip())
        if key is not None:
            return Principal(key.id, key.role, key.tenant_id, key.pinned_rung)
    raise Unauthenticated("a valid API key is needed: send it as metadata `authorization: Bearer <key>`")
