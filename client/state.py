"""A session at one moment, for dashboards, tests and the curious."""

from dataclasses import dataclass


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
    checked_reads, wrong_reads: reads of the client (all its sessions) that a cache was sure of and that were
    compared with the server, and those of them that lacked one of the server's best three.
    strict: too many of the last ones were wrong, so for now such reads ask the server.
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
    checked_reads: int
    wrong_reads: int
    strict: bool

    @property
    def lease_fresh(self) -> bool:
        return self.lease_seconds > 0
