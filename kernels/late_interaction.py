"""Late interaction: how well each token of a query finds its like in a document.

    score(q, d) = clip(sum over tokens i of q of  w_i * clip(max over tokens j of d of q_i . d_j, 0, 1), 0, 1)

Khattab & Zaharia, "ColBERT" (2020), with a weight for each token; token vectors have length 1, and the
weights of a query sum to 1. A document without tokens has the score 0. NaN in a vector or a weight is never
lost in a maximum: the pair's score is NaN.

Products of float16 vectors are exact. Those of float32 vectors are made of three tf32 products on the matrix
units, which lose little more than float32 does. Sums are float32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from precall.kernels.errors import KernelInputError
from precall.kernels.launch import Launch
from precall.kernels.tensors import check_tensor, next_power_of_two

_VECTORS = {torch.float32: "*fp32", torch.float16: "*fp16"}
_ASKED = 16
"""Tokens of a query at a time: most have no more, and the matrix units take no fewer."""

_TOLD_BYTES = 128
"""Tokens of a document at a time, by the bytes of a number of theirs."""

_COLUMN_BYTES = 256
"""Of a vector at a time. Twice as much of either spills: float32 needs three registers a number."""

LANES = 16
"""A vector's width is a multiple of it."""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """``vectors``: float32 or float16, ``(tokens, width)``, one text after the other. ``bounds``: int32,
    ``(texts + 1,)``: text i has the rows from ``bounds[i]`` to ``bounds[i + 1]``.
    """

    vectors: Tensor
    bounds: Tensor


@triton.jit
def interaction_kernel(queries, query_bounds, documents, document_bounds, weights, query_of, document_of,
                       scores, WIDTH: tl.constexpr, FRAME: tl.constexpr, ASKED: tl.constexpr,
                       TOLD: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """One pair. ``FRAME`` tokens at each end of each text are left out."""
    pair = tl.program_id(0)
    query = tl.load(query_of + pair)
    document = tl.load(document_of + pair)
    asked_from = tl.load(query_bounds + query).to(tl.int64) + FRAME
    asked_to = tl.load(query_bounds + query + 1).to(tl.int64) - FRAME
    told_from = tl.load(document_bounds + document).to(tl.int64) + FRAME
    told_to = tl.load(document_bounds + document + 1).to(tl.int64) - FRAME
    columns = tl.arange(0, COLUMNS)
    asked_lanes = tl.arange(0, ASKED)
    told_lanes = tl.arange(0, TOLD)
    score = 0.0
    broken = 0
    for asked in range(asked_from, asked_to, ASKED):
        asks = asked_lanes < asked_to - asked
        best = tl.zeros((ASKED,), tl.float32)
        for told in range(told_from, told_to, TOLD):
            tells = told_lanes < told_to - told
            left = queries + asked * WIDTH + asked_lanes[:, None] * WIDTH + columns[None, :]
            right = documents + told * WIDTH + told_lanes[None, :] * WIDTH + columns[:, None]
            cosines = tl.zeros((ASKED, TOLD), tl.float32)
            for column in range(0, WIDTH, COLUMNS):
                within = columns < WIDTH - column
                words = tl.load(left + column, mask=asks[:, None] & within[None, :], other=0.0)
                likes = tl.load(right + column, mask=tells[None, :] & within[:, None], other=0.0)
                cosines = tl.dot(words, likes, cosines, input_precision=PRECISION)
            # A row of zeros is where no token is, and 0 is the least that counts.
            broken += tl.sum(tl.sum((cosines != cosines).to(tl.int32), axis=1))
            best = tl.maximum(best, tl.max(cosines, axis=1))
        weight = tl.load(weights + asked + asked_lanes, mask=asks, other=0.0)
        score += tl.sum(weight * tl.minimum(best, 1.0))
    clipped = tl.minimum(tl.maximum(score, 0.0), 1.0)
    broken += tl.where(score != score, 1, 0)
    tl.store(scores + pair, tl.where(broken > 0, float("nan"), clipped))


def interaction_launch(width: int, vectors: torch.dtype, *, frame: int = 0) -> Launch:
    pointer = _VECTORS[vectors]
    return Launch(
        interaction_kernel,
        (pointer, "*i32", pointer, "*i32", "*fp32", "*i32", "*i32", "*fp32"),
        {
            "WIDTH": width,
            "FRAME": frame,
            "ASKED": _ASKED,
            "TOLD": _TOLD_BYTES // vectors.itemsize,
            "COLUMNS": min(_COLUMN_BYTES // vectors.itemsize, next_power_of_two(width)),
            "PRECISION": "tf32x3",
        },
    )


def late_interaction(
    queries: TokenVectors, documents: TokenVectors, weights: Tensor, query_of: Tensor, document_of: Tensor, *,
    frame: int = 0,
) -> Tensor:  # fmt: skip
    """float32, ``(pairs,)``: the score of each query ``query_of[p]`` and document ``document_of[p]``, int32,
    ``(pairs,)``.

    ``weights``: float32, a number for each row of the queries' vectors. ``frame``: tokens at each end of each
    text that are not compared (1 for [CLS] and [SEP]). Does not wait for the device. Numbers that point
    outside are not caught. Raises ``KernelInputError``.
    """
    device, dtype = queries.vectors.device, queries.vectors.dtype
    check_tensor("the queries' vectors", queries.vectors, tuple(_VECTORS), (None, None), device)
    width = queries.vectors.shape[1]
    if width % LANES or not width:
        raise KernelInputError(
            f"token vectors are {width} wide: pad them with zeros to a multiple of {LANES}"
        )
    check_tensor("the documents' vectors", documents.vectors, (dtype,), (None, width), device)
    check_tensor("the queries' bounds", queries.bounds, (torch.int32,), (None,), device)
    check_tensor("the documents' bounds", documents.bounds, (torch.int32,), (None,), device)
    check_tensor("weights", weights, (torch.float32,), (len(queries.vectors),), device)
    check_tensor("query_of", query_of, (torch.int32,), (None,), device)
    check_tensor("document_of", document_of, (torch.int32,), (len(query_of),), device)
    if frame < 0:
        raise KernelInputError(f"frame is {frame}: leave out 0 tokens or more")
    scores = torch.empty(len(query_of), dtype=torch.float32, device=device)
    if len(scores):
        interaction_launch(width, dtype, frame=frame).run(
            len(scores), queries.vectors, queries.bounds, documents.vectors, documents.bounds, weights,
            query_of, document_of, scores,
        )  # fmt: skip
    return scores


def late_interaction_reference(
    queries: TokenVectors, documents: TokenVectors, weights: Tensor, query_of: Tensor, document_of: Tensor, *,
    frame: int = 0,
) -> Tensor:  # fmt: skip
    """The formula in float32, a pair at a time, on any device; arguments as `late_interaction`'s."""
    scores = torch.zeros(len(query_of), device=weights.device)
    for pair, (query, document) in enumerate(zip(query_of.tolist(), document_of.tolist(), strict=True)):
        asked = _rows(queries, query, frame)
        told = documents.vectors[_rows(documents, document, frame)].float()
        if len(told):
            best = (queries.vectors[asked].float() @ told.T).amax(1)  # which passes NaN on
            scores[pair] = (weights[asked] * best.clamp(0, 1)).sum().clamp(0, 1)
    return scores


def _rows(texts: TokenVectors, text: int, frame: int) -> slice:
    first, last = texts.bounds[text : text + 2].tolist()
    return slice(first + frame, max(first + frame, last - frame))
