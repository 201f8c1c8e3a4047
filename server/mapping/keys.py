"""API keys on their way out; never their secrets."""

from typing import Final

from precall.proto import admin_pb2, common_pb2
from precall.server.keys import Key, Role
from precall.server.mapping.values import enumerated, timestamp

_ROLES: Final[dict[int, Role]] = {
    admin_pb2.KEY_ROLE_UNSPECIFIED: Role.WRITE,
    admin_pb2.KEY_ROLE_READ: Role.READ,
    admin_pb2.KEY_ROLE_WRITE: Role.WRITE,
    admin_pb2.KEY_ROLE_ADMIN: Role.ADMIN,
}
_WIRE_ROLES: Final = {
    Role.READ: admin_pb2.KEY_ROLE_READ,
    Role.WRITE: admin_pb2.KEY_ROLE_WRITE,
    Role.ADMIN: admin_pb2.KEY_ROLE_ADMIN,
}


def role_of(value: int) -> Role:
    """Raises InvalidInput."""
    return enumerated(value, _ROLES, "role")


def key_message(key: Key) -> admin_pb2.Key:
    message = admin_pb2.Key(
        id=key.id,
        tenant_id=key.tenant_id or "",
        role=_WIRE_ROLES[key.role],
        created_at=timestamp(key.created_at),
        label=key.label,
    )
    if key.pinned_scope is not None:
        message.pinned_scope.CopyFrom(common_pb2.Scope(levels=dict(key.pinned_scope)))
    if key.revoked_at is not None:
        message.revoked_at.CopyFrom(timestamp(key.revoked_at))
    return message
