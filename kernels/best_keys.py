"""The best of many totals, kept as integers that order totals and slots at once.

    key = ordered(total) << 32 | (2 ** 32 - 1 - slot)

``ordered`` maps a float32 to an int32 that grows with it. Of equal totals the lower slot has the greater key,
so that what is found does not depend on the order in which programs run.
"""

import triton
import triton.language as tl

EMPTY = tl.constexpr(-(2**63))
"""Less than every key: no row."""


@triton.jit
def keys_of(totals, slots):
    """int64 keys of float32 totals, none of them NaN, and of slots from 0 to 2 ** 31 - 1."""
    bits = (totals + 0.0).to(tl.int32, bitcast=True)  # -0.0 becomes 0.0: they are equal
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.to(tl.int64) << 32) | (slots.to(tl.int64) ^ 0xFFFFFFFF)


@triton.jit
def totals_of(keys):
    """float32 totals of keys; of `EMPTY` no number."""
    ordered = (keys >> 32).to(tl.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def slots_of(keys):
    """int32 slots of keys; of `EMPTY` no number."""
    return ((keys & 0xFFFFFFFF) ^ 0xFFFFFFFF).to(tl.int32)


@triton.jit
def merged(best, keys, KEPT: tl.constexpr):
    """The ``KEPT`` greatest of both, in ascending order. ``best``: ``(KEPT,)``, ascending; ``keys``: in any
    order, at least ``KEPT`` of them.

    One list ascending and one descending: the greater of each two at the same place are the greatest of all,
    first falling, then rising (Batcher, "Sorting networks and their applications", 1968).
    """
    return tl.bitonic_merge(tl.maximum(best, tl.topk(keys, KEPT)), descending=False)
