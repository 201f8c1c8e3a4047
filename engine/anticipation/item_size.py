"""What an item takes in a client's process."""

from typing import Final

from precall.engine.memory.memory import IndexedMemory

ITEM_OVERHEAD_BYTES: Final = 400
"""Ids, moments and object headers of an item in a client, measured on the Python client."""


def size_of(indexed: IndexedMemory) -> int:
    """Bytes that an item takes in a client's process, about."""
    if indexed.derived.size is None:
        indexed.derived.size = _size_of(indexed)
    return indexed.derived.size


def _size_of(indexed: IndexedMemory) -> int:
    memory, source = indexed.memory, indexed.memory.source
    words = (
        memory.text, memory.key, source.conversation_id, source.turn_id, source.uri,
        *source.memory_ids, *memory.questions,
    )  # fmt: skip
    return (
        ITEM_OVERHEAD_BYTES
        + sum(len(text.encode()) for text in words)
        + indexed.vector.nbytes * 2  # float32 in the cache
        + sum(len(term) + 12 for term in indexed.impacts)
        + sum(len(key) + len(value) for key, value in memory.metadata.items())
    )
