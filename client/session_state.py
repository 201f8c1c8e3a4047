"""Takes the snapshot of a session."""

from precall.client.observation import Outbox
from precall.client.state import SessionState
from precall.client.strictness import Strictness
from precall.client.subscription import Subscription


def session_state(
    subscription: Subscription, outbox: Outbox, strictness: Strictness, *, encoder_ready: bool
) -> SessionState:
    """How what a session is made of stands now."""
    cache = subscription.cache
    return SessionState(
        items=cache.items,
        wire_bytes=cache.wire_bytes,
        complete_rungs=cache.complete_rungs,
        version=cache.version,
        connected=subscription.connected,
        ready=subscription.in_step and subscription.servable and cache.settled,
        lease_seconds=subscription.lease_seconds,
        pushes=subscription.pushes,
        refused_items=subscription.refused_items,
        last_lead_seconds=subscription.last_lead_seconds,
        pending_observations=outbox.pending,
        dropped_partials=outbox.dropped_partials,
        dropped_turns=outbox.dropped_turns,
        encoder_ready=encoder_ready,
        checked_reads=strictness.checked,
        wrong_reads=strictness.wrong,
        strict=strictness.strict,
    )
