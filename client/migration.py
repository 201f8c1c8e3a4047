"""A tenant on its way from one model to another, as an operator sees it."""

from dataclasses import dataclass
from typing import Final

from precall.client.convert import enumeration_name
from precall.proto import admin_pb2

MIGRATION_ENDS: Final = ("switch", "roll_back", "finish")
"""The new model serves; the old one serves again; what is left of the old one is destroyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """``state``: "backfilling", "ready", "switched", "finishing", "finished", "rolled_back" or "unknown".

    ``done`` of ``total`` memories, those of the past included: those with a vector of the new model, while
    it is finishing those whose old vector is gone, and when it was rolled back those whose new one is not.
    ``overlap_at_10``: the mean share of the ten memories nearest to a query that both models agree on, over
    ``compared_queries``; None before they were compared, and with ``too_few_to_compare``: no reader sees
    enough memories for it to say anything. ``working``: the server is at work on it; else it stands until the
    next step. ``error``: why that work stopped, or pauses; else empty.

    ``texts_cut``: memories of whose text the new model read the first ``to_max_tokens`` tokens only; counted
    since the server opened the tenant, those destroyed since among them. ``to_max_tokens`` is 0 and a model's
    name empty where the server does not run it.
    """

    tenant_id: str
    from_fingerprint: str
    to_fingerprint: str
    serving_fingerprint: str
    state: str
    done: int
    total: int
    overlap_at_10: float | None
    compared_queries: int
    working: bool
    error: str
    texts_cut: int = 0
    to_max_tokens: int = 0
    too_few_to_compare: bool = False
    from_model: str = ""
    to_model: str = ""


def migration_from_wire(message: admin_pb2.Migration) -> Migration:
    return Migration(
        tenant_id=message.tenant_id,
        from_fingerprint=message.from_fingerprint,
        to_fingerprint=message.to_fingerprint,
        serving_fingerprint=message.serving_fingerprint,
        state=enumeration_name(admin_pb2.MigrationState, message.state, "MIGRATION_STATE_"),
        done=message.done,
        total=message.total,
        overlap_at_10=message.overlap_at_10 if message.compared_queries else None,
        compared_queries=message.compared_queries,
        working=message.working,
        error=message.error,
        texts_cut=message.texts_cut,
        to_max_tokens=message.to_max_tokens,
        too_few_to_compare=message.too_few_to_compare,
        from_model=message.from_model,
        to_model=message.to_model,
    )
