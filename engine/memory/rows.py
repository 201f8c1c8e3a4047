"""What a row of the ``memories`` table is made of: its columns, its checksums, and how values stand in it.

Checksums stand in each row, for SQLite has none: a disk that flips a bit inside a text or a vector leaves
a row that reads well and is wrong. What may change later (``state``, and what superseded it and when) has a
third one.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from precall.engine.memory.ladder import Rung
from precall.engine.memory.memory import MemoryState, from_unix_microseconds

CURRENT: Final = 0
SUPERSEDED: Final = 1
STATES = (MemoryState.CURRENT, MemoryState.SUPERSEDED)

Row = Sequence[Any]
"""What SQLite hands out: its types are known to the schema, not to Python."""

SAID: Final = (
    "id", "kind", "pinned", "confidence", "importance", "event_time", "said_time", "valid_from",
    "valid_until", "expires_at", "created_at", "created_version", "tokens_given", "tokens_used", "text",
    "key", "conversation_id", "turn_id", "uri", "derived_from", "questions", "metadata",
)  # fmt: skip

MEMORY_COLUMNS: Final = (
    "m.state, m.superseded_version, m.superseded_at, m.fate_checksum, m.said_checksum, r.path, "
    f"m.{', m.'.join(SAID)}"
)
"""What `decode_memory` takes, from ``memories m JOIN rungs r``."""

INDEXED_COLUMNS: Final = f"{MEMORY_COLUMNS}, m.vector, m.impact_terms, m.impact_weights, m.indexed_checksum"
"""What `decode_indexed_memory` takes."""

encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
"""Made once: `json.dumps` makes an encoder for each call."""

NO_NAMES: Final = "[]"
NO_ENTRIES: Final = "{}"


class DamagedRow(Exception):
    """A row that `encode_memory` cannot have written; the database tells whose it is."""


def digest(words: str) -> bytes | None:
    """What the indices hold in the place of words: 16 bytes, or None for no words."""
    return blake2b(words.encode(errors="surrogatepass"), digest_size=16).digest() if words else None


def fate_checksum(state: int, superseded_version: int, superseded_at: int | None) -> int:
    """Of what changes when a memory is superseded."""
    return crc32(f"{state},{superseded_version},{superseded_at}".encode())


CURRENT_CHECKSUM: Final = fate_checksum(CURRENT, 0, None)


@lru_cache(maxsize=4096)
def encode_rung(rung: Rung) -> str:
    return encode_json(rung.values)


def rungs_below(rung: Rung) -> tuple[str, str]:
    """The paths of all rungs below this one are ``first <= path < end``."""
    opened = encode_rung(rung)[:-1]
    return opened + ",", opened + "-"  # '-' comes right after ','


@lru_cache(maxsize=4096)
def decode_rung(path: str) -> Rung:
    return Rung(tuple(json.loads(path)))


def vector_of(content: bytes) -> NDArray[np.float16]:
    """A read-only array."""
    return np.frombuffer(content, "<f2").astype(np.float16, copy=False)


def said_bytes(path: str, said: Sequence[object]) -> bytes:
    """What ``said_checksum`` is of. ``path``: the rung's; ``said``: the columns of `SAID`."""
    return encode_json([path, *said]).encode()


def indexed_checksum(vector: bytes, impact_terms: str, impact_weights: bytes) -> int:
    """Of what the indexes need."""
    return crc32(impact_weights, crc32(impact_terms.encode(), crc32(vector)))


def decode_moment(value: int | None) -> datetime | None:
    return None if value is None else from_unix_microseconds(value)
