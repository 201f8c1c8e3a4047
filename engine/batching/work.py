"""The nouns of the queue: what callers ask for, what they hold meanwhile, and what the device computes."""

from dataclasses import dataclass, field
from enum import Enum, auto

from precall.engine.encoding.encoder import TextRole, TokenizedText


class WorkClass(Enum):
    """Why a text is embedded; the most urgent first."""

    CONVERSATION = "conversation"
    PREFETCH = "prefetch"
    INGEST = "ingest"

    @property
    def urgency(self) -> int:
        """0 is the most urgent."""
        return _URGENCY[self]


_URGENCY = {work_class: position for position, work_class in enumerate(WorkClass)}


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One text of one caller. ``deadline`` is on the queue's clock, in seconds; None: no deadline."""

    text: TokenizedText
    role: TextRole
    tenant: str
    work_class: WorkClass
    deadline: float | None = None


class TicketState(Enum):
    WAITING = auto()
    RUNNING = auto()
    DONE = auto()
    EXPIRED = auto()
    CANCELLED = auto()


@dataclass(eq=False, slots=True)
class Ticket:
    """A caller's claim on the result of a ``Work``. ``admitted_at`` is on the queue's clock."""

    request: EmbeddingRequest
    work: "Work"
    admitted_at: float
    state: TicketState = TicketState.WAITING

    @property
    def tokens(self) -> int:
        return self.work.tokens


WorkKey = tuple[str, TextRole, bytes]
"""Tenant, role and token ids: what makes two requests one work. Nothing is shared between tenants."""


@dataclass(eq=False, slots=True)
class Work:
    """One text to compute once, for every ticket of its tenant that asks for it.

    It stands in the line of the most urgent class that it was asked for in, and is charged to that.
    """

    key: WorkKey
    text: TokenizedText
    tenant: str
    work_class: WorkClass
    tickets: dict[Ticket, None] = field(default_factory=dict)
    """In the order of admission; a dict, because thousands of callers of one text may leave at once."""
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = len(self.text.token_ids)  # kept, because packing asks for it all the time


@dataclass(frozen=True, slots=True)
class Batch:
    """Work for one forward pass, all of one class; at least one item, no text twice.

    ``padded``: whether the device computes every text at the length of the longest.
    """

    works: tuple[Work, ...]
    work_class: WorkClass
    taken_at: float
    padded: bool = True

    @property
    def tokens(self) -> int:
        """Real tokens, without padding."""
        return sum(work.tokens for work in self.works)

    @property
    def padded_tokens(self) -> int:
        """Tokens that the device computes, padding included where it pads."""
        if not self.padded:
            return self.tokens
        return len(self.works) * max(work.tokens for work in self.works)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the queue hands out when the device is free: a batch if any, and tickets that came too late."""

    batch: Batch | None
    expired: tuple[Ticket, ...]


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Tickets since the start. ``admitted`` = waiting + running + ``done`` + ``expired`` + ``cancelled``."""

    admitted: int = 0
    refused: int = 0
    shared: int = 0
    done: int = 0
    expired: int = 0
    cancelled: int = 0
