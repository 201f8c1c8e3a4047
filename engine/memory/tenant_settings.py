"""What a tenant's file says of itself."""

import json
import sqlite3
from dataclasses import dataclass, replace
from typing import Self
from zlib import crc32

from precall.engine.errors import InvalidInput, TenantQuarantined
from precall.engine.memory.ladder import Ladder
from precall.engine.memory.migration import StoredModel
from precall.scoring.terms import ANALYZER_VERSION


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Fixed when the tenant is made, but for these: ``model_fingerprint`` and ``dimension``, of the model
    whose vectors stand in its memories' rows, are changed by the end of a migration alone;
    ``analyzer_version``, whose terms the keyword weights are of, by `precall.engine.memory.renewal` alone.
    """

    tenant_id: str
    ladder: Ladder
    model_fingerprint: str
    dimension: int
    analyzer_version: int = ANALYZER_VERSION

    @property
    def columns(self) -> tuple[str, str, str, int, int, int]:
        """As they stand in ``meta``, their checksum last."""
        said = (
            self.tenant_id,
            json.dumps(self.ladder.levels),
            self.model_fingerprint,
            self.dimension,
            self.analyzer_version,
        )
        return (*said, crc32(json.dumps(said).encode()))

    @classmethod
    def read(cls, connection: sqlite3.Connection, *, name: str) -> Self:
        """Raises TenantQuarantined, which speaks of ``name``."""
        row = connection.execute(
            "SELECT tenant_id, levels, model_fingerprint, dimension, analyzer_version, settings_checksum "
            "FROM meta"
        ).fetchone()
        try:
            ladder = Ladder(tuple(json.loads(row[1])))
            settings = cls(str(row[0]), ladder, str(row[2]), int(row[3]), int(row[4]))
            if settings.columns != tuple(row):
                raise ValueError("the checksum is that of other settings")
        except (TypeError, ValueError, InvalidInput) as error:
            raise TenantQuarantined(
                f"the settings of tenant {name!r} are damaged: restore it from a backup"
            ) from error
        return settings

    def rename(self, connection: sqlite3.Connection, tenant_id: str) -> None:
        """Give the file that they were read from to a tenant of another name."""
        replace(self, tenant_id=tenant_id).store(connection)

    def analyzed_by(self, version: int) -> Self:
        """The same with the weights of another analyser."""
        return replace(self, analyzer_version=version)

    def indexed_by(self, model: StoredModel) -> Self:
        """The same with vectors of another model."""
        return replace(self, model_fingerprint=model.fingerprint, dimension=model.dimension)

    def store(self, connection: sqlite3.Connection) -> None:
        """Put them in the place of those in the file."""
        connection.execute(
            "UPDATE meta SET tenant_id = ?, levels = ?, model_fingerprint = ?, dimension = ?, "
            "analyzer_version = ?, settings_checksum = ?",
            self.columns,
        )
