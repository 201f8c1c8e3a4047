"""Bringing a file up to date after an update of precall that makes other terms of a text than before."""

from precall.engine.memory.database import Database
from precall.engine.memory.placement import Placement
from precall.engine.memory.tenant_settings import TenantSettings
from precall.engine.memory.turns import Turns
from precall.scoring.terms import ANALYZER_VERSION


def renew(database: Database, settings: TenantSettings) -> None:
    """Weigh every memory anew, history included, unless today's analyser made its terms already.

    One transaction, so a crash or a full disk leaves the file as it was, until it is opened next. Raises
    TenantQuarantined for a damaged row, and StorageUnavailable.
    """
    if settings.analyzer_version == ANALYZER_VERSION:
        return
    with database.writing() as connection:
        placement = Placement.read(connection)
        numbers = connection.execute("SELECT number FROM memories ORDER BY number").fetchall()
        for (number,) in numbers:
            Turns(connection, placement).weigh(number)
        settings.analyzed_by(ANALYZER_VERSION).store(connection)
