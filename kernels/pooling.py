"""From the hidden states of packed texts to vectors and codes, in one pass over the states.

For a text with the states h_1 ... h_n, of which the first ``dimension`` components are taken:

    pooled  p = mean of h_t (mean), h_n (last token), h_1 (cls)
    vector  v = float16(p / |p|)
    code    c_i = floor(255 * clip((v_i - minimum_i) / span_i, 0, 1))

Cut, then normalised: what Matryoshka models ask for. Sums are float32. Codes are made of the vector as it is
kept, so they are to the last bit those that FAISS' `QT_8bit` makes of it on the CPU. A span of 0 has code 0.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from precall.kernels.errors import KernelInputError
from precall.kernels.launch import Launch
from precall.kernels.tensors import check_tensor, next_power_of_two

MEAN, LAST_TOKEN, CLS = "mean", "last_token", "cls"
POOLINGS = (MEAN, LAST_TOKEN, CLS)
"""As model cards have them."""

MOST_DIMENSION = 8_192
_STATES = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}
_TILE = 8_192
"""States that a program reads at a time."""


@dataclass(frozen=True, slots=True)
class CodeRanges:
    """``minimum``, ``span``: float32, ``(dimension,)``, as `engine.index.quantizer` trains them."""

    minimum: Tensor
    span: Tensor


@dataclass(frozen=True, slots=True)
class Pooled:
    """``vectors``: float16, ``(texts, dimension)``. ``codes``: uint8, same shape; None without ranges.
    ``lengths``: float32, ``(texts,)``, of what was pooled before it was normalised. One that is 0, infinite
    or NaN (no text, or a broken state) makes no vector: its row is NaN, its codes are 0, and whoever reads
    it has to refuse it.
    """

    vectors: Tensor
    codes: Tensor | None
    lengths: Tensor


@triton.jit
def pool_kernel(states, bounds, minima, spans, vectors, codes, lengths, HIDDEN: tl.constexpr,
                DIMENSION: tl.constexpr, BLOCK: tl.constexpr, TOKENS: tl.constexpr, POOLING: tl.constexpr,
                CODED: tl.constexpr):  # fmt: skip
    """One text. The codes take the vector from registers: it is written once and never read."""
    text = tl.program_id(0).to(tl.int64)
    first = tl.load(bounds + text).to(tl.int64)
    last = tl.load(bounds + text + 1).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < DIMENSION
    if POOLING == "mean":
        rows = tl.arange(0, TOKENS)
        sums = tl.zeros((TOKENS, BLOCK), tl.float32)
        for token in range(first, last, TOKENS):
            tile = states + token * HIDDEN + rows[:, None] * HIDDEN + columns[None, :]
            mask = (rows < last - token)[:, None] & inside[None, :]
            sums += tl.load(tile, mask=mask, other=0.0).to(tl.float32)
        pooled = tl.sum(sums, axis=0) / tl.maximum(last - first, 1).to(tl.float32)
    else:
        token = first if POOLING == "cls" else last - 1
        there = columns < tl.where(last > first, DIMENSION, 0)
        pooled = tl.load(states + token * HIDDEN + columns, mask=there, other=0.0).to(tl.float32)
    length = tl.sqrt_rn(tl.sum(tl.where(inside, pooled * pooled, 0.0)))
    tl.store(lengths + text, length)
    good = tl.where(length < float("inf"), length, 0.0) > 0.0  # NaN is neither
    vector = tl.where(good, tl.div_rn(pooled, tl.where(good, length, 1.0)), float("nan")).to(tl.float16)
    tl.store(vectors + text * DIMENSION + columns, vector, mask=inside)
    if CODED:
        minimum = tl.load(minima + columns, mask=inside, other=0.0)
        span = tl.load(spans + columns, mask=inside, other=0.0)
        ranged = tl.where(good, span, 0.0) != 0.0
        share = tl.div_rn(vector.to(tl.float32) - minimum, tl.where(ranged, span, 1.0))
        share = tl.minimum(tl.maximum(tl.where(ranged, share, 0.0), 0.0), 1.0)
        code = (255.0 * share).to(tl.int32).to(tl.uint8)
        tl.store(codes + text * DIMENSION + columns, code, mask=inside)


def pool_launch(
    hidden: int,
    dimension: int,
    pooling: str,
    *,
    coded: bool,
    states: torch.dtype,
    bounds: torch.dtype = torch.int32,
) -> Launch:
    block = next_power_of_two(dimension)
    return Launch(
        pool_kernel,
        (
            _STATES[states],
            "*i32" if bounds == torch.int32 else "*i64",
            *("*fp32", "*fp32", "*fp16", "*u8", "*fp32"),
        ),
        {
            "HIDDEN": hidden,
            "DIMENSION": dimension,
            "BLOCK": block,
            "TOKENS": max(1, _TILE // block),
            "POOLING": pooling,
            "CODED": coded,
        },
        warps=8 if pooling == MEAN or block >= 2_048 else 4,
    )


def pool(
    states: Tensor,
    bounds: Tensor,
    pooling: str,
    *,
    dimension: int | None = None,
    ranges: CodeRanges | None = None,
) -> Pooled:
    """Vectors, and codes where ``ranges`` are given, of packed texts.

    ``states``: float32, float16 or bfloat16, ``(tokens, hidden)``, one text after the other. ``bounds``:
    int32 or int64, ``(texts + 1,)``: text i has the rows from ``bounds[i]`` to ``bounds[i + 1]``.
    ``pooling``: one of `POOLINGS`. ``dimension``: components that are taken; None: all. Does not wait for
    the device. Bounds that point outside are not caught. Raises ``KernelInputError``.
    """
    device = states.device
    check_tensor("states", states, tuple(_STATES), (None, None), device)
    check_tensor("bounds", bounds, (torch.int32, torch.int64), (None,), device)
    if not len(bounds):
        raise KernelInputError(
            "bounds is empty: it begins with 0, and has one number more than there are texts"
        )
    if pooling not in POOLINGS:
        raise KernelInputError(f"pooling is {pooling!r}: take one of {', '.join(POOLINGS)}")
    hidden = states.shape[1]
    kept = hidden if dimension is None else dimension
    if not 1 <= kept <= min(hidden, MOST_DIMENSION):
        raise KernelInputError(f"dimension is {kept}: take 1 to {min(hidden, MOST_DIMENSION)}")
    texts = len(bounds) - 1
    vectors = torch.empty((texts, kept), dtype=torch.float16, device=device)
    lengths = torch.empty(texts, dtype=torch.float32, device=device)
    codes = None
    if ranges is not None:
        check_tensor("minimum", ranges.minimum, (torch.float32,), (kept,), device)
        check_tensor("span", ranges.span, (torch.float32,), (kept,), device)
        codes = torch.empty((texts, kept), dtype=torch.uint8, device=device)
    if texts:
        # What is not coded has no ranges and no place for codes: the kernel looks at neither.
        minimum, span = (lengths, lengths) if ranges is None else (ranges.minimum, ranges.span)
        launch = pool_launch(
            hidden, kept, pooling, coded=codes is not None, states=states.dtype, bounds=bounds.dtype
        )
        launch.run(
            texts, states, bounds, minimum, span, vectors, vectors if codes is None else codes, lengths
        )
    return Pooled(vectors, codes, lengths)


def pool_reference(
    states: Tensor,
    bounds: Tensor,
    pooling: str,
    *,
    dimension: int | None = None,
    ranges: CodeRanges | None = None,
) -> Pooled:
    """The formula with torch's own functions, a text at a time, on any device; arguments as `pool`'s."""
    kept = states.shape[1] if dimension is None else dimension
    pooled = torch.zeros((len(bounds) - 1, kept), device=states.device)
    for text, (first, last) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        if first < last:
            own = states[first:last, :kept].float()
            pooled[text] = {MEAN: own.mean(0), LAST_TOKEN: own[-1], CLS: own[0]}[pooling]
    lengths = pooled.norm(dim=1)
    good = (lengths.isfinite() & (lengths > 0))[:, None]
    vectors = torch.where(good, pooled / lengths[:, None], torch.nan).half()
    if ranges is None:
        return Pooled(vectors, None, lengths)
    shares = (vectors.float() - ranges.minimum) / ranges.span
    shares = torch.where(good & (ranges.span != 0), shares, 0.0)
    return Pooled(vectors, (255 * shares.clamp(0, 1)).to(torch.uint8), lengths)
