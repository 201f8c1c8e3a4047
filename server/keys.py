"""API keys: what is stored of them, and the look-up that every call makes."""

import hashlib
import hmac
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Final

from precall.engine.errors import ConfigurationError, InvalidInput, NotFound, StorageUnavailable
from precall.engine.memory.ladder import Rung

PREFIX: Final = "pck"
SECRET_BYTES: Final = 32
MINIMUM_CONFIGURED_CHARACTERS: Final = 32
MAX_LABEL_CHARACTERS: Final = 200

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS keys (
    id           TEXT PRIMARY KEY,
    digest       BLOB NOT NULL CHECK (length(digest) = 32),
    tenant_id    TEXT,
    role         TEXT NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    pinned_scope TEXT,
    label        TEXT NOT NULL,
    created_at   REAL NOT NULL,
    revoked_at   REAL
) STRICT
"""


class Role(Enum):
    """What a key may do; each role may do what the ones before it may."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def covers(self, needed: "Role") -> bool:
        return _RANKS[self] >= _RANKS[needed]


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Key:
    """All that is known of a key but its secret. ``tenant_id`` None: an admin key of the whole server.

    ``pinned_scope``: level -> value from the top of the ladder, or None for a key that is good everywhere.
    """

    id: str
    tenant_id: str | None
    role: Role
    label: str
    created_at: datetime
    pinned_scope: Mapping[str, str] | None = None
    revoked_at: datetime | None = None

    @property
    def pinned_rung(self) -> Rung | None:
        return None if self.pinned_scope is None else Rung(tuple(self.pinned_scope.values()))


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key with the token that its holder sends; nobody can read the token again later."""

    key: Key
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Stored:
    key: Key
    digest: bytes = field(repr=False)


class KeyStore:
    """Keys in one SQLite file, all of them in memory as well. Thread-safe; writing methods block on the disk.

    A token is ``pck_<id>_<secret>`` with 256 random bits; the file holds the secret's SHA-256, which for a
    random secret needs neither salt nor stretching. Invariant: memory holds no key that the file does not.
    """

    def __init__(self, path: Path, *, configured_admin: str | None = None) -> None:
        """``configured_admin``: a further admin token that is kept in memory alone.

        Raises ConfigurationError when the file is unusable or the configured token too short.
        """
        if configured_admin is not None and len(configured_admin) < MINIMUM_CONFIGURED_CHARACTERS:
            raise ConfigurationError(
                f"admin_key must have at least {MINIMUM_CONFIGURED_CHARACTERS} characters: make one with "
                "`openssl rand -base64 32`"
            )
        self._lock = threading.Lock()
        self._configured = None if configured_admin is None else _digest(configured_admin)
        self._configured_key = Key("configured", None, Role.ADMIN, "setting admin_key", datetime.now(UTC))
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(_SCHEMA)
            self._keys = {stored.key.id: stored for stored in self._read()}
        except (sqlite3.Error, OSError, ValueError) as error:
            raise ConfigurationError(
                f"the key file {path} cannot be used ({error}): restore it, or remove it to "
                "issue all keys anew"
            ) from error

    def find(self, token: str) -> Key | None:
        """The key that a token belongs to, if it is good now."""
        if self._configured is not None and hmac.compare_digest(self._configured, _digest(token)):
            return self._configured_key
        prefix, _, rest = token.partition("_")
        key_id, _, secret = rest.partition("_")
        stored = self._keys.get(key_id) if prefix == PREFIX else None
        # An unknown id takes the same steps, so that time does not tell which ids exist.
        digest = stored.digest if stored is not None else bytes(32)
        matches = hmac.compare_digest(digest, _digest(secret))
        if stored is None or not matches or stored.key.revoked_at is not None:
            return None
        return stored.key

    def is_good(self, key_id: str) -> bool:
        """Whether a key that was found before has not been revoked since."""
        if self._configured is not None and key_id == self._configured_key.id:
            return True
        stored = self._keys.get(key_id)
        return stored is not None and stored.key.revoked_at is None

    def issue(
        self,
        *,
        tenant_id: str | None,
        role: Role,
        label: str = "",
        pinned_scope: Mapping[str, str] | None = None,
    ) -> IssuedKey:
        """Make a key; durable on return. Raises InvalidInput, StorageUnavailable."""
        if tenant_id is None and role is not Role.ADMIN:
            raise InvalidInput("a key without a tenant is an admin key of the whole server: give a tenant_id")
        if pinned_scope is not None and role is Role.ADMIN:
            raise InvalidInput("an admin key cannot be pinned to a scope: it could issue itself a wider one")
        if len(label) > MAX_LABEL_CHARACTERS:
            raise InvalidInput(f"label has {len(label)} characters, at most {MAX_LABEL_CHARACTERS}")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        key = Key(secrets.token_hex(8), tenant_id, role, label, datetime.now(UTC), pinned_scope)
        with self._lock:
            self._execute(
                "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                key.id, _digest(secret), tenant_id, role.value,
                None if pinned_scope is None else json.dumps(dict(pinned_scope)), label,
                key.created_at.timestamp(),
            )  # fmt: skip
            self._keys[key.id] = _Stored(key, _digest(secret))
        return IssuedKey(key, f"{PREFIX}_{key.id}_{secret}")

    def get(self, key_id: str) -> Key:
        """Revoked ones too. Raises NotFound."""
        stored = self._keys.get(key_id)
        if stored is None:
            raise NotFound(f"there is no key {key_id!r}")
        return stored.key

    def revoke(self, key_id: str) -> Key:
        """End a key; twice is as once. Raises NotFound, StorageUnavailable."""
        with self._lock:
            key = self.get(key_id)
            if key.revoked_at is not None:
                return key
            now = time.time()
            self._execute("UPDATE keys SET revoked_at = ? WHERE id = ?", now, key_id)
            revoked = replace(key, revoked_at=datetime.fromtimestamp(now, UTC))
            self._keys[key_id] = replace(self._keys[key_id], key=revoked)
            return revoked

    def of_tenant(self, tenant_id: str | None) -> Sequence[Key]:
        """The tenant's keys, or for None the server's own, oldest first."""
        keys = [stored.key for stored in list(self._keys.values()) if stored.key.tenant_id == tenant_id]
        return sorted(keys, key=lambda key: (key.created_at, key.id))

    def remove_tenant(self, tenant_id: str) -> None:
        """Destroy all keys of a tenant, so that none is good for a later tenant of the same name."""
        with self._lock:
            self._execute("DELETE FROM keys WHERE tenant_id = ?", tenant_id)
            for key_id in [i for i, stored in self._keys.items() if stored.key.tenant_id == tenant_id]:
                del self._keys[key_id]

    @property
    def has_admin(self) -> bool:
        """Whether anybody could manage this server."""
        return self._configured is not None or any(key.revoked_at is None for key in self.of_tenant(None))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _read(self) -> Sequence[_Stored]:
        rows = self._connection.execute(
            "SELECT id, digest, tenant_id, role, pinned_scope, label, created_at, revoked_at FROM keys"
        )
        return [
            _Stored(
                Key(
                    id=row[0],
                    tenant_id=row[2],
                    role=Role(row[3]),
                    label=row[5],
                    created_at=datetime.fromtimestamp(row[6], UTC),
                    pinned_scope=None if row[4] is None else json.loads(row[4]),
                    revoked_at=None if row[7] is None else datetime.fromtimestamp(row[7], UTC),
                ),
                row[1],
            )
            for row in rows
        ]

    def _execute(self, statement: str, *values: str | bytes | float | None) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise StorageUnavailable(f"the disk refused a change of the API keys ({error})") from error


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
