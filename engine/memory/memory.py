"""A memory: what a writer says (`NewMemory`) and what the tenant keeps (`Memory`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.engine.errors import InvalidInput
from precall.engine.memory.derived import Derived
from precall.engine.memory.ladder import Rung

MAX_TEXT_CHARACTERS: Final = 100_000
MAX_KEY_CHARACTERS: Final = 512
MAX_METADATA_ENTRIES: Final = 64
MAX_METADATA_CHARACTERS: Final = 4_096
MAX_QUESTIONS: Final = 32
MAX_QUESTION_CHARACTERS: Final = 2_000
MAX_QUESTIONS_CHARACTERS: Final = 16_000
"""Of all questions of a memory together: they are analysed, indexed and pushed like its text."""

MAX_SOURCE_CHARACTERS: Final = 512
"""Of a conversation's id, a turn's id, and a uri."""


class MemoryKind(Enum):
    FACT = "fact"
    PREFERENCE = "preference"
    EPISODE = "episode"
    EMOTION = "emotion"
    EVENT = "event"
    DOCUMENT = "document"


class MemoryState(Enum):
    CURRENT = "current"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory came from; ``memory_ids`` are the memories that it was derived from."""

    conversation_id: str = ""
    turn_id: str = ""
    uri: str = ""
    memory_ids: tuple[str, ...] = ()

    def check_length(self) -> None:
        """Raises InvalidInput for a field that is too long."""
        for name in ("conversation_id", "turn_id", "uri"):
            characters = len(getattr(self, name))
            if characters > MAX_SOURCE_CHARACTERS:
                raise InvalidInput(
                    f"source.{name} has {characters} characters, at most {MAX_SOURCE_CHARACTERS}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """What a writer says. All moments are timezone-aware UTC.

    Raises InvalidInput from ``__post_init__`` when a field is out of its range.
    """

    id: str
    rung: Rung
    text: str
    event_time: datetime
    said_time: datetime
    kind: MemoryKind = MemoryKind.FACT
    key: str = ""
    confidence: float = 1.0
    importance: float = 0.5
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    source: Source = field(default_factory=Source)
    questions: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InvalidInput("text is empty")
        if len(self.text) > MAX_TEXT_CHARACTERS:
            raise InvalidInput(
                f"text has {len(self.text)} characters, at most {MAX_TEXT_CHARACTERS}: split the document"
            )
        if len(self.key) > MAX_KEY_CHARACTERS:
            raise InvalidInput(f"key has {len(self.key)} characters, at most {MAX_KEY_CHARACTERS}")
        for name in ("confidence", "importance"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:  # NaN fails this too
                raise InvalidInput(f"{name} must lie between 0 and 1, it is {value}")
        if len(self.questions) > MAX_QUESTIONS:
            raise InvalidInput(f"{len(self.questions)} questions, at most {MAX_QUESTIONS}")
        for number, question in enumerate(self.questions):
            if len(question) > MAX_QUESTION_CHARACTERS:
                raise InvalidInput(
                    f"questions[{number}] has {len(question)} characters, at most {MAX_QUESTION_CHARACTERS}"
                )
        if (characters := sum(map(len, self.questions))) > MAX_QUESTIONS_CHARACTERS:
            raise InvalidInput(
                f"the questions have {characters} characters in all, at most {MAX_QUESTIONS_CHARACTERS}"
            )
        self.source.check_length()
        if len(self.metadata) > MAX_METADATA_ENTRIES:
            raise InvalidInput(f"{len(self.metadata)} metadata entries, at most {MAX_METADATA_ENTRIES}")
        if sum(len(k) + len(v) for k, v in self.metadata.items()) > MAX_METADATA_CHARACTERS:
            raise InvalidInput(f"metadata is over {MAX_METADATA_CHARACTERS} characters")
        if self.valid_from and self.valid_until and self.valid_until <= self.valid_from:
            raise InvalidInput("valid_until must be after valid_from")

    @property
    def characters(self) -> int:
        """Of what is analysed and indexed: the text and the questions."""
        return len(self.text) + sum(map(len, self.questions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory. While it is current ``superseded_version`` is 0 and ``superseded_at`` None."""

    id: str
    rung: Rung
    kind: MemoryKind
    state: MemoryState
    text: str
    key: str
    confidence: float
    importance: float
    event_time: datetime
    said_time: datetime
    valid_from: datetime | None
    valid_until: datetime | None
    expires_at: datetime | None
    source: Source
    questions: tuple[str, ...]
    metadata: Mapping[str, str]
    pinned: bool
    created_version: int
    superseded_version: int
    superseded_at: datetime | None = None
    created_at: datetime
    tokens_given: int
    tokens_used: int

    @property
    def servable_from(self) -> float:
        """Unix seconds from which a search may return it."""
        return self.valid_from.timestamp() if self.valid_from else float("-inf")

    @property
    def servable_until(self) -> float:
        """Unix seconds from which a search may no longer return it."""
        ends = [moment.timestamp() for moment in (self.valid_until, self.expires_at) if moment]
        return min(ends, default=float("inf"))


@dataclass(frozen=True, slots=True)
class IndexedMemory:
    """A memory with what the indexes need of it.

    ``vector``: float16, shape ``(dimension,)``, unit length before rounding; of the model that serves the
    tenant, or that was asked for. ``other_vector``: of `TenantStore.other`, in what a write, a destruction or
    a weighing hands on; None where there is no other model or it has made none yet.
    ``impacts``: keyword term -> weight, as ``precall.scoring.keyword.document_impacts`` makes them of its own
    words and, where it is a turn, of what was said before it (`precall.engine.memory.turns`).
    ``derived``: what was made of all this; never carried over to a changed copy.
    """

    memory: Memory
    vector: NDArray[np.float16]
    impacts: Mapping[str, float]
    other_vector: NDArray[np.float16] | None = None
    derived: Derived = field(default_factory=Derived, init=False, compare=False, repr=False)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def from_unix_microseconds(value: int) -> datetime:
    """The exact inverse of `to_unix_microseconds`, before 1970 as well."""
    return _EPOCH + timedelta(microseconds=value)


def to_unix_microseconds(moment: datetime) -> int:
    """Exact: integer arithmetic, so that no moment changes by passing through a float."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
