"""Causal attention over packed texts, each of which sees itself alone."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from precall.engine.encoding.packing_texts import PackedTexts
from precall.engine.encoding.torch_device import Placement


@dataclass(frozen=True, slots=True)
class PackedTensors:
    """``PackedTexts`` on a device: views of one int32 buffer. ``lengths`` and ``longest`` are on the host.

    ``token_ids``, ``positions``: ``(tokens,)``; ``offsets``: ``(texts + 1,)``; ``ends``: ``(texts,)``.
    ``longest`` may be more than the longest text has: it bounds what attention looks at.
    """

    token_ids: Tensor
    positions: Tensor
    offsets: Tensor
    ends: Tensor
    lengths: tuple[int, ...]
    longest: int

    @classmethod
    def of(cls, buffer: Tensor, packed: PackedTexts, *, longest: int | None = None) -> "PackedTensors":
        """``buffer`` holds what ``packed.buffer`` does, or will before the views are read."""
        tokens, texts = packed.tokens, len(packed.lengths)
        token_ids, positions, offsets, ends = buffer.split_with_sizes([tokens, tokens, texts + 1, texts])
        return cls(token_ids, positions, offsets, ends, packed.lengths, longest or packed.longest)


Attention = Callable[[Tensor, Tensor, Tensor, PackedTensors], Tensor]
"""Queries ``(tokens, query heads, head)``, keys and values ``(tokens, key heads, head)`` to contexts shaped
as the queries. Each key head serves ``query heads / key heads`` neighbouring query heads.
"""


def choose_attention(placement: Placement) -> Attention:
    """Variable-length flash attention where it exists, else text by text."""
    return variable_length_attention if placement.has_variable_length_attention else text_by_text_attention


def text_by_text_attention(queries: Tensor, keys: Tensor, values: Tensor, batch: PackedTensors) -> Tensor:
    """One call a text. Its memory grows with the tokens, not with their square; no padding is computed."""
    if queries.is_cuda:
        # There, grouped heads in float32 have only the kernel that writes the whole square of scores.
        keys, values = (ungrouped(states, queries.shape[1]) for states in (keys, values))
    contexts = torch.empty_like(queries)
    begin = 0
    for length in batch.lengths:
        rows = slice(begin, begin + length)
        begin += length
        if length == 0:
            continue
        contexts[rows] = scaled_dot_product_attention(
            queries[rows].transpose(0, 1).unsqueeze(0),
            keys[rows].transpose(0, 1).unsqueeze(0),
            values[rows].transpose(0, 1).unsqueeze(0),
            is_causal=True,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )[0].transpose(0, 1)
    return contexts


def ungrouped(states: Tensor, query_heads: int) -> Tensor:
    """Keys or values ``(tokens, key heads, head)`` with each head as often as query heads share it."""
    return states.repeat_interleave(query_heads // states.shape[1], dim=1)


def variable_length_attention(queries: Tensor, keys: Tensor, values: Tensor, batch: PackedTensors) -> Tensor:
    """One call for all texts, whatever their lengths. Reads no tensor on the host, so it can be recorded."""
    return _causal_varlen()(queries, keys, values, batch.offsets, batch.offsets, batch.longest, batch.longest)


@functools.cache
def _causal_varlen() -> Callable[..., Tensor]:
    """Made once: looking at a signature takes longer than launching the kernel."""
    from torch.nn.attention.varlen import varlen_attn

    attend: Callable[..., Any] = varlen_attn
    return functools.partial(attend, **causal_options(attend))


def causal_options(varlen_attn: Callable[..., object]) -> Mapping[str, object]:
    """How the installed torch is told that attention is causal and that query heads share key heads.

    Source: the signatures of ``torch.nn.attention.varlen.varlen_attn``. 2.10 has ``is_causal``; 2.11 has
    ``window_size`` in its place; 2.12 also wants ``enable_gqa``, which the kernel found out by itself before.
    """
    known = inspect.signature(varlen_attn).parameters
    causal: dict[str, object] = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    return causal | ({"enable_gqa": True} if "enable_gqa" in known else {})
