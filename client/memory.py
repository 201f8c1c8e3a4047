"""What callers write and read: memories and the results of writing and destroying them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

MEMORY_KINDS = ("fact", "preference", "episode", "emotion", "event", "document")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource:
    """Where a memory came from; ``memory_ids`` are the memories that it was derived from."""

    conversation_id: str = ""
    turn_id: str = ""
    uri: str = ""
    memory_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDraft:
    """What a writer says. Moments must carry a time zone; unset ones are the server's choice (now).

    ``kind`` is one of ``MEMORY_KINDS``. ``confidence`` and ``importance`` lie in [0, 1]; None is the server's
    default (1.0 and 0.5). A ``key`` that exists on the rung supersedes the older statement by event time.
    """

    text: str
    kind: str = "fact"
    key: str = ""
    id: str = ""
    confidence: float | None = None
    importance: float | None = None
    event_time: datetime | None = None
    said_time: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    source: MemorySource = field(default_factory=MemorySource)
    questions: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory. ``state`` is "current" or "superseded"; moments are timezone-aware UTC."""

    id: str
    scope: Mapping[str, str]
    kind: str
    state: str
    text: str
    key: str
    confidence: float
    importance: float
    event_time: datetime
    said_time: datetime
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None
    source: MemorySource
    questions: tuple[str, ...]
    metadata: Mapping[str, str]
    pinned: bool
    created_version: int
    superseded_version: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Written:
    """One memory that is durable now.

    ``version``: the tenant's version that the write made; a read that demands it sees the write.
    ``state`` is "superseded" when a newer event of the same key stands: this one was filed as history.
    """

    id: str
    version: int
    superseded_ids: tuple[str, ...] = ()
    state: str = "current"
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a delete destroyed; ``missing_ids`` did not exist, or the caller may not see them."""

    version: int
    deleted_ids: tuple[str, ...]
    missing_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgottenScope:
    """``deleted`` memories stood on the rung and below it."""

    version: int
    deleted: int


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of one rung, oldest first; ``next_page_token`` is empty on the last one."""

    memories: tuple[Memory, ...]
    next_page_token: str
    version: int


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """Memories in the order asked, without those in ``missing_ids``."""

    memories: tuple[Memory, ...]
    missing_ids: tuple[str, ...]
    version: int
