"""Causal attention over packed texts, each of which sees itself alone."""

from collections.abc import Callable
from dataclasses import dataclass

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
    """Variable-length flash attention where it exists (CUDA, half precision), else text by text."""
    half = placement.dtype in (torch.bfloat16, torch.float16)
    return variable_length_attention if placement.on_gpu and half else text_by_text_attention


def text_by_text_attention(queries: Tensor, keys: Tensor, values: Tensor, batch: PackedTensors) -> Tensor:
    """One call a text. Its memory grows with the tokens, not with their square; no padding is computed."""
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
            enable_gqa=True,
        )[0].transpose(0, 1)
    return contexts


def variable_length_attention(queries: Tensor, keys: Tensor, values: Tensor, batch: PackedTensors) -> Tensor:
    """One call for all texts, whatever their lengths. Reads no tensor on the host, so it can be recorded."""
    from torch.nn.attention.varlen import varlen_attn

    contexts = varlen_attn(
        queries,
        keys,
        values,
        batch.offsets,
        batch.offsets,
        batch.longest,
        batch.longest,
        window_size=(-1, 0),
        enable_gqa=True,
    )
    assert isinstance(contexts, Tensor)
    return contexts
