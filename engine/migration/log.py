"""What the log says of migrations: a line a step, with its facts as fields of the record."""

import logging

from precall.engine.memory.migration import Migration

_logger = logging.getLogger(__name__)


def log_step(tenant_id: str, migration: Migration) -> None:
    """That the migration came to this state. Fields: tenant, from, to, state."""
    facts = {
        "tenant": tenant_id,
        "from": migration.from_fingerprint,
        "to": migration.to_fingerprint,
        "state": migration.stage,
    }
    _logger.info("the migration of tenant %s is %s", tenant_id, migration.stage, extra=facts)


def log_stop(tenant_id: str, error: str, unexpected: Exception | None = None) -> None:
    """That its work in the background stopped. Fields: tenant, error. ``unexpected``: a fault of ours."""
    facts = {"tenant": tenant_id, "error": error}
    level = logging.WARNING if unexpected is None else logging.ERROR
    message = "the migration of tenant %s stopped: %s"
    _logger.log(level, message, tenant_id, error, extra=facts, exc_info=unexpected)
