"""A stamp of a pushed memory, by which a client's copy is known to be what it would be sent now, or not."""

import hashlib

import numpy as np

from precall.engine.memory.memory import IndexedMemory

_BYTES = 8
"""One in 2**64 changed memories would pass for unchanged."""


def stamp_of(indexed: IndexedMemory) -> int:
    """64 bits over words, vector, keyword weights and moments, the same on every server of one version.

    Keyword weights are what changes of a memory while it stands: another turn came before it, or went. The
    moment and the version of its writing stand for all that never changes.
    """
    if indexed.derived.stamp is None:
        indexed.derived.stamp = _stamp_of(indexed)
    return indexed.derived.stamp


def _stamp_of(indexed: IndexedMemory) -> int:
    memory, impacts = indexed.memory, indexed.impacts
    digest = hashlib.blake2b(memory.text.encode(), digest_size=_BYTES)
    digest.update(indexed.vector.tobytes())
    digest.update("\0".join(impacts).encode())
    digest.update(np.fromiter(impacts.values(), np.dtype("<f4"), len(impacts)).tobytes())
    moments = (memory.event_time, memory.valid_from, memory.valid_until, memory.expires_at)
    written = (memory.created_version, memory.created_at)
    digest.update(repr((memory.importance, moments, written)).encode())
    return int.from_bytes(digest.digest(), "little")
