"""The log of requests that makes a retry a no-op."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from precall.engine.errors import InvalidInput
from precall.engine.memory.memory import NewMemory, to_unix_microseconds

RETENTION_MICROSECONDS: Final = 7 * 24 * 3600 * 1_000_000
"""How long a request is remembered: seven days; a retry that comes later is a new request."""

MAX_REQUEST_ID_CHARACTERS: Final = 128


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request: its id and a digest of what it asks, which tells a retry from a mistake."""

    id: str
    digest: bytes

    def __post_init__(self) -> None:
        if not 1 <= len(self.id) <= MAX_REQUEST_ID_CHARACTERS or not self.id.isprintable():
            raise InvalidInput(f"a request_id has 1 to {MAX_REQUEST_ID_CHARACTERS} printable characters")

    @staticmethod
    def of_write(request_id: str | None, memories: Sequence[NewMemory]) -> "Request | None":
        """Ids, event and said times stay out of the digest: where a writer leaves them open the server
        fills them in, differently at each try.
        """
        if request_id is None:
            return None
        return _request(request_id, "write", [_content(memory) for memory in memories])

    @staticmethod
    def of_destruction(request_id: str | None, what: str, content: object) -> "Request | None":
        """``content`` must be JSON-serialisable and say all that ``what`` depends on."""
        return None if request_id is None else _request(request_id, what, content)

    def stored_outcome(self, connection: sqlite3.Connection) -> str | None:
        """The outcome's JSON if this request was answered before.

        Raises InvalidInput if the id was used for something else.
        """
        row = connection.execute(
            "SELECT digest, outcome FROM requests WHERE request_id = ?", (self.id,)
        ).fetchone()
        if row is None:
            return None
        if row[0] != self.digest:
            raise InvalidInput(
                f"request_id {self.id!r} was used for another request: make a new one for each request"
            )
        return str(row[1])

    def store(self, connection: sqlite3.Connection, outcome: str, *, now: int) -> None:
        """Remember the outcome, and forget requests that are over `RETENTION_MICROSECONDS` old."""
        connection.execute("DELETE FROM requests WHERE created_at < ?", (now - RETENTION_MICROSECONDS,))
        connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?)", (self.id, self.digest, outcome, now))


def _request(request_id: str, what: str, content: object) -> Request:
    text = json.dumps([what, content], separators=(",", ":"))
    return Request(request_id, blake2b(text.encode(), digest_size=16).digest())


def _content(memory: NewMemory) -> list[object]:
    source = memory.source
    ends = (memory.valid_from, memory.valid_until, memory.expires_at)
    return [
        memory.rung.values,
        memory.kind.value,
        memory.key,
        memory.text,
        memory.confidence,
        memory.importance,
        [moment and to_unix_microseconds(moment) for moment in ends],
        [source.conversation_id, source.turn_id, source.uri, source.memory_ids],
        memory.questions,
        sorted(memory.metadata.items()),
        memory.pinned,
    ]
