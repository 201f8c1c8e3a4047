"""What a tenant's file says of itself."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Self
from zlib import crc32

from precall.engine.errors import InvalidInput, TenantQuarantined
from precall.engine.memory.ladder import Ladder


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Fixed when the tenant is made. ``dimension``: of its vectors."""

    tenant_id: str
    ladder: Ladder
    model_fingerprint: str
    dimension: int

    @property
    def columns(self) -> tuple[str, str, str, int, int]:
        """As they stand in ``meta``, their checksum last."""
        said = (self.tenant_id, json.dumps(self.ladder.levels), self.model_fingerprint, self.dimension)
        return (*said, crc32(json.dumps(said).encode()))

    @classmethod
    def read(cls, connection: sqlite3.Connection, *, name: str) -> Self:
        """Raises TenantQuarantined, which speaks of ``name``."""
        row = connection.execute(
            "SELECT tenant_id, levels, model_fingerprint, dimension, settings_checksum FROM meta"
        ).fetchone()
        try:
            settings = cls(str(row[0]), Ladder(tuple(json.loads(row[1]))), str(row[2]), int(row[3]))
            if settings.columns != tuple(row):
                raise ValueError("the checksum is that of other settings")
        except (TypeError, ValueError, InvalidInput) as error:
            raise TenantQuarantined(
                f"the settings of tenant {name!r} are damaged: restore it from a backup"
            ) from error
        return settings

    def rename(self, connection: sqlite3.Connection, tenant_id: str) -> None:
        """Give the file that they were read from to a tenant of another name."""
        renamed = TenantSettings(tenant_id, self.ladder, self.model_fingerprint, self.dimension)
        connection.execute(
            "UPDATE meta SET tenant_id = ?, settings_checksum = ?", (tenant_id, renamed.columns[-1])
        )
