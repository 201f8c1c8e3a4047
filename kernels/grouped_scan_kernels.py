"""What `grouped_scan` launches, and with which constants."""

import triton
import triton.language as tl

from precall.kernels.best_keys import EMPTY, keys_of, merged, slots_of, totals_of
from precall.kernels.launch import Launch
from precall.kernels.tensors import next_power_of_two

DIGITS = 3
_COLUMNS = 16
"""Of the narrowest matrix product; the digits fill three of them."""

_ROWS = 128
"""Of a tile. As many as can be kept, for a tile's best are found by sorting no more than it has."""

_LEAST_ROWS = 2 * _ROWS
"""Of a chunk: below this, merging costs more than a second program saves."""

_PLANNED = 1_024
"""Pairs that the plan reads at a time."""

_MERGED = 1_024
"""Keys that a merge reads at a time."""


@triton.jit
def _rows_of(pair, partition_of, lengths, pairs):
    """Rows of the partitions of these pairs; 0 beyond the last pair, and where no partition is named."""
    partition = tl.load(partition_of + pair, mask=pair < pairs, other=-1)
    return tl.load(lengths + partition, mask=partition >= 0, other=0)


@triton.jit
def _plan(partition_of, lengths, firsts, chunk_rows, pairs, PROGRAMS: tl.constexpr, PLANNED: tl.constexpr,
          ROWS: tl.constexpr, LEAST_ROWS: tl.constexpr):  # fmt: skip
    """Cut all rows into chunks of one length, at most ``PROGRAMS`` more than there are pairs: a partition has
    one at least if it has rows, and ``total / PROGRAMS`` rows a chunk make ``PROGRAMS`` chunks at most.
    ``firsts[p]`` is the number of chunks before pair p.
    """
    lanes = tl.arange(0, PLANNED)
    total = tl.sum(_rows_of(lanes, partition_of, lengths, pairs).to(tl.int64))
    for begin in range(PLANNED, pairs, PLANNED):
        total += tl.sum(_rows_of(begin + lanes, partition_of, lengths, pairs).to(tl.int64))
    share = tl.cdiv(total, PROGRAMS)
    chunk = tl.maximum(tl.cdiv(share, ROWS) * ROWS, LEAST_ROWS)
    tl.store(chunk_rows, chunk)
    tl.store(firsts, 0)
    before = 0
    for begin in range(0, pairs, PLANNED):
        rows = _rows_of(begin + lanes, partition_of, lengths, pairs)
        counts = tl.cdiv(rows.to(tl.int64), chunk).to(tl.int32)
        tl.store(firsts + 1 + begin + lanes, before + tl.cumsum(counts, 0), mask=begin + lanes < pairs)
        before += tl.sum(counts)


@triton.jit
def _fold(pair, queries, query_of, partition_of, steps, middles, digits, scales, offsets,
          WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The folded query of a pair in whole digits, the power of two that they count, and the second sum."""
    columns = tl.arange(0, BLOCK)
    partition = tl.load(partition_of + pair)
    inside = columns < tl.where(partition >= 0, WIDTH, 0)
    query = tl.load(queries + tl.load(query_of + pair).to(tl.int64) * WIDTH + columns, mask=inside, other=0.0)
    finite = tl.abs(query) < float("inf")  # which NaN is not, either
    broken = tl.sum(tl.where(finite, 0, 1))
    query = tl.where(finite, query, 0.0)
    ranges = partition.to(tl.int64) * WIDTH + columns
    folded = query * tl.load(steps + ranges, mask=inside, other=0.0)
    offset = tl.sum(query * tl.load(middles + ranges, mask=inside, other=0.0))
    tl.store(offsets + pair, tl.where(broken > 0, float("nan"), offset))

    # The exponent of the greatest: times 2 ** (21 - exponent), each is less than 2 ** 22. Below 2 ** -105 all
    # count as nothing.
    exponent = (tl.max(tl.abs(folded)).to(tl.int32, bitcast=True) >> 23) & 0xFF
    exponent = tl.minimum(tl.maximum(exponent, 22), 254)
    tl.store(scales + pair, ((exponent - 21) << 23).to(tl.float32, bitcast=True))
    unit = ((275 - exponent) << 23).to(tl.float32, bitcast=True)
    whole = tl.floor(folded * unit + 0.5).to(tl.int32)
    low = ((whole + 128) & 0xFF) - 128
    rest = (whole - low) >> 8
    middle = ((rest + 128) & 0xFF) - 128
    high = (rest - middle) >> 8
    place = digits + pair.to(tl.int64) * 3 * WIDTH + columns
    tl.store(place, high.to(tl.int8), mask=columns < WIDTH)
    tl.store(place + WIDTH, middle.to(tl.int8), mask=columns < WIDTH)
    tl.store(place + 2 * WIDTH, low.to(tl.int8), mask=columns < WIDTH)


@triton.jit(do_not_specialize=["pairs"])
def fold_kernel(queries, query_of, partition_of, lengths, steps, middles, digits, scales, offsets, firsts,
                chunk_rows, pairs, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
                PLANNED: tl.constexpr, ROWS: tl.constexpr, LEAST_ROWS: tl.constexpr):  # fmt: skip
    """Program 0 plans, each other one folds a query: neither needs the other, and it saves a launch."""
    program = tl.program_id(0)
    if program == 0:
        _plan(partition_of, lengths, firsts, chunk_rows, pairs, PROGRAMS, PLANNED, ROWS, LEAST_ROWS)
    else:
        _fold(
            program - 1,
            queries,
            query_of,
            partition_of,
            steps,
            middles,
            digits,
            scales,
            offsets,
            WIDTH,
            BLOCK,
        )


@triton.jit
def _pair_of(chunk, firsts, pairs):
    """The last pair with ``firsts[pair] <= chunk``."""
    lower = 0
    upper = pairs
    while upper - lower > 1:
        between = (lower + upper) // 2
        if tl.load(firsts + between) <= chunk:
            lower = between
        else:
            upper = between
    return lower


@triton.jit(do_not_specialize=["pairs"])
def scan_kernel(codes, alive, starts, lengths, partition_of, digits, scales, offsets, firsts, chunk_rows,
                chunk_keys, pairs, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
                COLUMNS: tl.constexpr, KEPT: tl.constexpr):  # fmt: skip
    """The best keys of a chunk, ascending. A tile that holds none costs its products and one comparison."""
    chunk = tl.program_id(0)
    if chunk >= tl.load(firsts + pairs):
        return
    pair = _pair_of(chunk, firsts, pairs)
    partition = tl.load(partition_of + pair)
    start = tl.load(starts + partition)
    step = tl.load(chunk_rows)
    begin = ((chunk - tl.load(firsts + pair)) * step).to(tl.int32)
    end = tl.minimum(begin + step, tl.load(lengths + partition)).to(tl.int32)
    scale = tl.load(scales + pair)
    offset = tl.load(offsets + pair)

    lanes = tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    places = tl.arange(0, COLUMNS)
    shifts = tl.where(places == 0, 16, tl.where(places == 1, 8, 0)).to(tl.int64)
    asked = digits + pair.to(tl.int64) * 3 * WIDTH + places[:, None] * WIDTH + columns[None, :]
    best = tl.full((KEPT,), EMPTY, tl.int64)
    least = tl.min(best)
    for row in range(begin, end, ROWS):
        inside = lanes < end - row
        tile = codes + (start + row) * WIDTH + lanes[:, None] * WIDTH + columns[None, :]
        sums = tl.zeros((ROWS, COLUMNS), tl.int32)
        for column in range(0, WIDTH, BLOCK):
            if WIDTH % BLOCK == 0:
                bytes_ = tl.load(tile + column, mask=inside[:, None], other=0)
                parts = tl.load(asked + column, mask=(places < 3)[:, None], other=0)
            else:
                within = (columns < WIDTH - column)[None, :]
                bytes_ = tl.load(tile + column, mask=inside[:, None] & within, other=0)
                parts = tl.load(asked + column, mask=(places < 3)[:, None] & within, other=0)
            signed = (bytes_ ^ 128).to(tl.int8, bitcast=True)  # c - 128 in two's complement
            sums = tl.dot(signed, tl.trans(parts), sums, out_dtype=tl.int32)
        whole = tl.sum(sums.to(tl.int64) << shifts[None, :], axis=1)
        totals = whole.to(tl.float32) * scale + offset
        living = tl.load(alive + start + row + lanes, mask=inside, other=0) != 0
        keys = tl.where(living & (totals == totals), keys_of(totals, row + lanes), EMPTY)
        if tl.max(keys) > least:
            best = merged(best, keys, KEPT)
            least = tl.min(best)
    tl.store(chunk_keys + chunk.to(tl.int64) * KEPT + tl.arange(0, KEPT), best)


@triton.jit(do_not_specialize=["wanted"])
def merge_kernel(
    chunk_keys, offsets, firsts, slots, totals, wanted, KEPT: tl.constexpr, MERGED: tl.constexpr
):
    """The best of a pair's chunks, in descending order; -1 and minus infinity where there are no more."""
    pair = tl.program_id(0)
    first = tl.load(firsts + pair).to(tl.int64)
    last = tl.load(firsts + pair + 1).to(tl.int64)
    lanes = tl.arange(0, KEPT)
    best = tl.load(chunk_keys + first * KEPT + lanes, mask=lanes < (last - first) * KEPT, other=EMPTY)
    least = tl.min(best)
    many = tl.arange(0, MERGED)
    for begin in range((first + 1) * KEPT, last * KEPT, MERGED):
        keys = tl.load(chunk_keys + begin + many, mask=begin + many < last * KEPT, other=EMPTY)
        if tl.max(keys) > least:
            best = merged(best, keys, KEPT)
            least = tl.min(best)
    found = best != EMPTY
    rank = KEPT - 1 - lanes
    place = pair.to(tl.int64) * wanted + rank
    nothing = tl.load(offsets + pair) - float("inf")  # NaN for a query that holds NaN or infinity
    tl.store(slots + place, tl.where(found, slots_of(best), -1), mask=rank < wanted)
    tl.store(totals + place, tl.where(found, totals_of(best), nothing), mask=rank < wanted)


def fold_launch(width: int, programs: int) -> Launch:
    return Launch(
        fold_kernel,
        ("*fp32", "*i32", "*i32", "*i32", "*fp32", "*fp32", "*i8", "*fp32", "*fp32", "*i32", "*i64", "i32"),
        {
            "WIDTH": width,
            "BLOCK": next_power_of_two(width),
            "PROGRAMS": programs,
            "PLANNED": _PLANNED,
            "ROWS": _ROWS,
            "LEAST_ROWS": _LEAST_ROWS,
        },
    )


def scan_launch(width: int, kept: int) -> Launch:
    return Launch(
        scan_kernel,
        ("*u8", "*u8", "*i64", "*i32", "*i32", "*i8", "*fp32", "*fp32", "*i32", "*i64", "*i64", "i32"),
        {"WIDTH": width, "BLOCK": _block(width), "ROWS": _ROWS, "COLUMNS": _COLUMNS, "KEPT": kept},
    )


def merge_launch(kept: int) -> Launch:
    return Launch(
        merge_kernel,
        ("*i64", "*fp32", "*i32", "*i32", "*fp32", "i32"),
        {"KEPT": kept, "MERGED": _MERGED},
    )


def _block(width: int) -> int:
    """Columns of a tile: as many as a line of the cache has bytes, or fewer where those leave none over."""
    for block in (128, 64):
        if width % block == 0:
            return block
    return max(32, min(128, next_power_of_two(width)))
