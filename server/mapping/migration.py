"""A tenant's migration, as a message of the wire."""

from typing import Final

from precall.engine.memory.migration import MigrationState
from precall.engine.migration.migrating import MigrationReport
from precall.engine.models import Models
from precall.proto import admin_pb2

_STATES: Final = {
    MigrationState.BACKFILLING: admin_pb2.MIGRATION_STATE_BACKFILLING,
    MigrationState.SWITCHED: admin_pb2.MIGRATION_STATE_SWITCHED,
    MigrationState.FINISHING: admin_pb2.MIGRATION_STATE_FINISHING,
    MigrationState.FINISHED: admin_pb2.MIGRATION_STATE_FINISHED,
    MigrationState.ROLLED_BACK: admin_pb2.MIGRATION_STATE_ROLLED_BACK,
}


def migration_message(tenant_id: str, report: MigrationReport, models: Models) -> admin_pb2.Migration | None:
    """None for a tenant that never had one. ``models``: that run here."""
    migration = report.migration
    if migration is None:
        return None
    old, new = models.get(migration.from_fingerprint), models.get(migration.to_fingerprint)
    return admin_pb2.Migration(
        tenant_id=tenant_id,
        from_fingerprint=migration.from_fingerprint,
        to_fingerprint=migration.to_fingerprint,
        serving_fingerprint=migration.serving_fingerprint,
        state=admin_pb2.MIGRATION_STATE_READY if migration.ready else _STATES[migration.state],
        done=migration.done,
        total=migration.total,
        overlap_at_10=migration.overlap_at_10 or 0.0,
        compared_queries=migration.compared_queries,
        error=report.error,
        working=report.running,
        texts_cut=report.texts_cut,
        to_max_tokens=0 if new is None else new.card.max_tokens,
        too_few_to_compare=report.too_few_to_compare,
        from_model="" if old is None else old.card.name,
        to_model="" if new is None else new.card.name,
    )
