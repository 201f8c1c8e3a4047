"""A session at one moment, for dashboards, tests and the curious."""

from dataclasses import dataclass
from typing import Self

from precall.client.observation import Outbox
from precall.client.subscription import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A snapshot; nothing in it changes.

    items, wire_bytes: what the cache holds.
    complete_rungs: ladder levels held in whole.
    version: that the cache reflects, 0 before the first push.
    ready: a whole push came over the present connection, and may be served.
    lease_seconds: for how long cached items may still be served without another word from the server.
    encoder_ready: queries are embedded in this process, by the model that the server has.
    last_lead_seconds: from the last observation to the push that it caused, None before the first.
    """

    items: int
    wire_bytes: int
    complete_rungs: tuple[str, ...]
    version: int
    connected: bool
    ready: bool
    lease_seconds: float
    pushes: int
    refused_items: int
    last_lead_seconds: float | None
    pending_observations: int
    dropped_partials: int
    dropped_turns: int
    encoder_ready: bool

    @classmethod
    def of(cls, subscription: Subscription, outbox: Outbox, *, encoder_ready: bool) -> Self:
        """How what a session is made of stands now."""
        cache = subscription.cache
        return cls(
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
        )

    @property
    def lease_fresh(self) -> bool:
        return self.lease_seconds > 0
