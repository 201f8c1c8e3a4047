"""How far anticipation goes: leases, budgets, what counts as small."""

from dataclasses import dataclass, field

from precall.engine.anticipation.chat_endpoint import ChatEndpointSettings
from precall.engine.anticipation.co_use import CoUseSettings
from precall.engine.anticipation.foreseen import ForeseenSettings
from precall.engine.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class AnticipationSettings:
    """Times in seconds. A session's own limits may be tighter than ``max_items`` and ``max_bytes``.

    ``neighbour_items``, ``call_start_items``: most of what these predictors propose at once, of the latter a
    rung and a reason. ``language_model``: None: nobody is asked what will be asked.

    ``push_part_items``: taking an item costs an agent's event loop some 30 µs, so 40 of them cost 1.2 ms.

    ``push_parts_waiting``: parts of one session's pushes that may wait for a client which reads its stream
    slowly. While so many wait nothing is predicted for it, and what is written is left out, its rung whole no
    longer. The first push of a session counts, but is never cut.

    ``lease_seconds`` bounds two things at once: how long a cache answers through an outage, and how long a
    strict delete waits for a client that vanished.
    """

    heartbeat_seconds: float = 1.0
    lease_seconds: float = 10.0
    maximum_age_seconds: float = 3_600.0
    complete_below: int = 2_000
    items_per_query: int = 200
    neighbour_items: int = 64
    call_start_items: int = 32
    co_use: CoUseSettings = field(default_factory=CoUseSettings)
    foreseen: ForeseenSettings = field(default_factory=ForeseenSettings)
    language_model: ChatEndpointSettings | None = None
    coverages_kept: int = 8
    turns_kept: int = 12
    max_items: int = 4_096
    max_bytes: int = 32 * 1024 * 1024
    push_part_items: int = 40
    push_parts_waiting: int = 128
    stream_queue_events: int = 65_536
    sessions_per_stream: int = 2_000

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_seconds * 3 <= self.lease_seconds:
            raise ConfigurationError(
                f"lease_seconds ({self.lease_seconds}) must be at least three heartbeats "
                f"({self.heartbeat_seconds} s each): one lost heartbeat must not cost the lease"
            )
        if self.complete_below > self.max_items:
            raise ConfigurationError(
                f"complete_below ({self.complete_below}) must not be over max_items ({self.max_items})"
            )
