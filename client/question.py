"""What is asked, checked before anything is sent."""

import uuid
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from precall.client import arguments
from precall.client.errors import InvalidInput
from precall.client.filter import MemoryFilter, filter_to_wire

MAX_QUERY_CHARACTERS: Final = 20_000
MAX_LIMIT: Final = 1000
MAX_BUDGET_TOKENS: Final = 2**31 - 1
SEARCH_MODES: Final = ("fast", "accurate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A read's arguments. Raises InvalidInput from ``__post_init__`` for what no server would answer.

    ``deadline_seconds`` bounds the wait for the server; 0 means: from the cache or not at all.
    ``min_version``: the answer must reflect at least this version. ``min_relevance``: as in ``read``.
    ``filter``: for the server alone, no cache answers a question that has one.
    """

    query: str
    limit: int
    budget_tokens: int
    deadline_seconds: float
    min_version: int
    min_relevance: float = 0.0
    filter: MemoryFilter | None = None

    def __post_init__(self) -> None:
        if not arguments.text(self.query, "query").strip():
            raise InvalidInput("query is empty")
        if len(self.query) > MAX_QUERY_CHARACTERS:
            raise InvalidInput(
                f"query has {len(self.query)} characters, at most {MAX_QUERY_CHARACTERS} are taken: "
                "ask what the last turn asks, not the whole conversation"
            )
        arguments.whole_number(self.limit, "limit", minimum=1, maximum=MAX_LIMIT)
        arguments.whole_number(self.budget_tokens, "budget_tokens", minimum=0, maximum=MAX_BUDGET_TOKENS)
        if not arguments.number(self.deadline_seconds, "deadline") >= 0:
            raise InvalidInput(f"the deadline is {self.deadline_seconds:g} s, it must be 0 or more")
        arguments.version(self.min_version)
        if not 0.0 <= arguments.number(self.min_relevance, "min_relevance") <= 1.0:
            raise InvalidInput(f"min_relevance must lie between 0 and 1, it is {self.min_relevance}")
        filter_to_wire(self.filter)


def check_mode(mode: str) -> None:
    """Raises InvalidInput for a search mode that there is not."""
    if mode not in SEARCH_MODES:
        raise InvalidInput(f"mode {mode!r} is unknown, use one of {', '.join(SEARCH_MODES)}")


def conversation(conversation_id: UUID | str | None) -> str:
    """The id as text, a new one for None. Raises InvalidInput for what is no UUID."""
    if conversation_id is None:
        return str(uuid.uuid4())
    try:
        return str(UUID(str(conversation_id)))
    except ValueError:
        raise InvalidInput(f"conversation_id {conversation_id!r} is no UUID: use uuid.uuid4()") from None
