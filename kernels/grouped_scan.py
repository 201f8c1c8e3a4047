"""The best rows of many partitions for many queries, by 8-bit codes: three launches, however many there are.

For a pair of a query q and a partition whose codes have the steps s and the middles m, each row that is
alive, with the codes c, has

    total = sum over i of q_i * s_i * (c_i - 128)  +  sum over i of q_i * m_i

which is the product of q with the vector that the codes stand for, as `Coder.ask` of the index has it. The k
greatest are found; of equal ones the lower slot comes first.

The first sum is made of whole numbers. The folded query q_i * s_i becomes a whole number of at most 22 bits
times a power of two, and that number three digits of 8 bits: three columns of an int8 matrix product, whose
sums are exact. So a total does not depend on tiles, programs or devices, save for how the second sum is
rounded. What the whole numbers leave out is half a unit a column at most:

    |error| <= width * 64 * 2 ** -21 * max |q_i * s_i|

Matrix units multiply, for the other ones could not even widen bytes as fast as a GPU's memory brings them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from precall.kernels.errors import KernelInputError
from precall.kernels.grouped_scan_kernels import DIGITS, fold_launch, merge_launch, scan_launch
from precall.kernels.tensors import check_tensor, next_power_of_two

MOST_WANTED = 128
MOST_WIDTH = 4_096
LANES = 16
"""Bytes that are read at a time: a row's width is a multiple of it."""

PROGRAMS = 1_024
"""Chunks that all rows are cut into, and one more a pair at most: two or three times what a large GPU runs at
a time. Chosen, not measured.
"""

_FEWEST_KEPT = 16
_REFERENCE_ROWS = 2**18
_MOST_PAIRS = 2**24


@dataclass(frozen=True, slots=True)
class CodeArena:
    """Partitions of codes, all tensors on one device, contiguous.

    ``codes``: uint8, ``(rows, width)``; a column that a partition does not use has a step and a middle of 0.
    ``alive``: uint8 or bool, ``(rows,)``; 0 for a slot that is never found. ``starts``: int64, the first row
    of each partition, and ``lengths``: int32, its rows, both ``(partitions,)``. ``steps``, ``middles``:
    float32, ``(partitions, width)``: a code c stands for ``step * (c - 128) + middle``.
    """

    codes: Tensor
    alive: Tensor
    starts: Tensor
    lengths: Tensor
    steps: Tensor
    middles: Tensor

    @property
    def width(self) -> int:
        return self.codes.shape[-1]

    def check(self) -> None:
        """Raises ``KernelInputError``; looks at shapes, dtypes and places, not at what is in them."""
        device = self.codes.device
        check_tensor("codes", self.codes, (torch.uint8,), (None, None), device)
        if self.width % LANES or not LANES <= self.width <= MOST_WIDTH:
            raise KernelInputError(
                f"codes are {self.width} bytes wide: pad them to a multiple of {LANES}, {MOST_WIDTH} at most"
            )
        check_tensor("alive", self.alive, (torch.uint8, torch.bool), (len(self.codes),), device)
        check_tensor("starts", self.starts, (torch.int64,), (None,), device)
        partitions = len(self.starts)
        check_tensor("lengths", self.lengths, (torch.int32,), (partitions,), device)
        check_tensor("steps", self.steps, (torch.float32,), (partitions, self.width), device)
        check_tensor("middles", self.middles, (torch.float32,), (partitions, self.width), device)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which queries are asked of which partitions, on the arena's device, contiguous.

    ``queries``: float32, ``(queries, width)``. ``query_of``, ``partition_of``: int32, ``(pairs,)``. A pair
    whose partition is -1 finds nothing: a recorded launch may be played with fewer pairs than it holds.
    """

    queries: Tensor
    query_of: Tensor
    partition_of: Tensor


@dataclass(frozen=True, slots=True)
class FoundSlots:
    """``slots``: int32, ``(pairs, wanted)``, rows counted from the partition's first, best first; -1 where
    there are no more. ``totals``: float32, same shape; minus infinity where there are no more, NaN in a pair
    whose query holds NaN or infinity.
    """

    slots: Tensor
    totals: Tensor


def grouped_scan(arena: CodeArena, pairs: Pairs, wanted: int, *, programs: int = PROGRAMS) -> FoundSlots:
    """The best ``wanted`` rows, 1 to 128, of each pair.

    Does not wait for the device, and all sizes follow from shapes: what partitions hold may change between
    launches of a recorded graph. Numbers in ``starts``, ``lengths``, ``query_of`` and ``partition_of`` that
    point outside are not caught. Raises ``KernelInputError``.
    """
    arena.check()
    device, width = arena.codes.device, arena.width
    check_tensor("queries", pairs.queries, (torch.float32,), (None, width), device)
    check_tensor("query_of", pairs.query_of, (torch.int32,), (None,), device)
    count = len(pairs.query_of)
    check_tensor("partition_of", pairs.partition_of, (torch.int32,), (count,), device)
    if not 1 <= wanted <= MOST_WANTED:
        raise KernelInputError(f"wanted is {wanted}: ask for 1 to {MOST_WANTED} rows of a pair")
    if count > _MOST_PAIRS:
        raise KernelInputError(f"{count} pairs: ask at most {_MOST_PAIRS} at a time")
    found = FoundSlots(
        torch.empty((count, wanted), dtype=torch.int32, device=device),
        torch.empty((count, wanted), dtype=torch.float32, device=device),
    )
    if not count:
        return found
    kept = max(_FEWEST_KEPT, next_power_of_two(wanted))
    digits = torch.empty((count, DIGITS, width), dtype=torch.int8, device=device)
    scales = torch.empty(count, dtype=torch.float32, device=device)
    offsets = torch.empty(count, dtype=torch.float32, device=device)
    firsts = torch.empty(count + 1, dtype=torch.int32, device=device)
    chunk_rows = torch.empty(1, dtype=torch.int64, device=device)
    keys = torch.empty((count + programs, kept), dtype=torch.int64, device=device)
    alive = arena.alive.view(torch.uint8)
    fold_launch(width, programs).run(
        count + 1, pairs.queries, pairs.query_of, pairs.partition_of, arena.lengths, arena.steps,
        arena.middles, digits, scales, offsets, firsts, chunk_rows, count,
    )  # fmt: skip
    scan_launch(width, kept).run(
        count + programs, arena.codes, alive, arena.starts, arena.lengths, pairs.partition_of, digits, scales,
        offsets, firsts, chunk_rows, keys, count,
    )  # fmt: skip
    merge_launch(kept).run(count, keys, offsets, firsts, found.slots, found.totals, wanted)
    return found


def grouped_scan_reference(arena: CodeArena, pairs: Pairs, wanted: int) -> FoundSlots:
    """The formula in float64, a pair at a time, on any device."""
    slots = torch.full((len(pairs.query_of), wanted), -1, dtype=torch.int32)
    totals = torch.full((len(pairs.query_of), wanted), -torch.inf)
    asked = zip(pairs.query_of.tolist(), pairs.partition_of.tolist(), strict=True)
    for pair, (number, partition) in enumerate(asked):
        query = pairs.queries[number].double()
        if not query.isfinite().all():
            totals[pair] = torch.nan
        elif partition >= 0:
            start = int(arena.starts[partition])
            rows = slice(start, start + int(arena.lengths[partition]))
            folded = query * arena.steps[partition]
            blocks = arena.codes[rows].split(_REFERENCE_ROWS)
            products = torch.cat([(block.double() - 128) @ folded for block in blocks])
            products += query @ arena.middles[partition].double()
            living = arena.alive[rows].bool().nonzero().flatten()
            # Stable, so that of equal ones the lower slot comes first.
            order = products[living].sort(descending=True, stable=True).indices[:wanted]
            slots[pair, : len(order)] = living[order].int().cpu()
            totals[pair, : len(order)] = products[living[order]].float().cpu()
    return FoundSlots(slots.to(arena.codes.device), totals.to(arena.codes.device))
