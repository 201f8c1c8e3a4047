"""The forward pass of Qwen3 over packed texts: what the published model computes, without a padding token."""

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, silu

from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.qwen3_weights import Qwen3Layer, Qwen3Weights
from precall.engine.encoding.torch_attention import Attention, PackedTensors


class Qwen3Model:
    """Holds no state between passes. Runs under ``torch.inference_mode``; never waits for the device.

    Sums and products go into tensors that are there already, where nobody reads them any more: between the
    matrix products a GPU does nothing but move bytes.
    """

    def __init__(self, architecture: Qwen3Architecture, weights: Qwen3Weights, attention: Attention) -> None:
        self._shape = architecture
        self._weights = weights
        self._attention = attention
        exponents = torch.arange(0, architecture.head, 2, device=weights.embedding.device) / architecture.head
        self._frequencies = architecture.rotary_base**-exponents

    def last_hidden(self, batch: PackedTensors) -> Tensor:
        """The final state of each text's last token: the weights' dtype, shape ``(texts, hidden)``."""
        weights = self._weights
        hidden = embedding(batch.token_ids, weights.embedding)
        rotation = self._rotation(batch.positions, hidden.dtype)
        for layer in weights.layers[:-1]:
            hidden = self._feed_forward(layer, hidden, self._attend(layer, hidden, rotation, batch))
        # Nobody reads the last layer's other tokens once their keys and values are in.
        last = weights.layers[-1]
        contexts = self._attend(last, hidden, rotation, batch)
        hidden = self._feed_forward(last, hidden[batch.ends], contexts[batch.ends])
        return self._norm(hidden, weights.final_norm)

    def _attend(
        self, layer: Qwen3Layer, hidden: Tensor, rotation: "_Rotation", batch: PackedTensors
    ) -> Tensor:
        """Contexts, shape ``(tokens, query heads x head)``. Leaves ``hidden`` as it is."""
        shape = self._shape
        joined = linear(self._norm(hidden, layer.attention_norm), layer.query_key_value)
        queries, keys, values = joined.split_with_sizes(
            [shape.query_width, shape.key_width, shape.key_width], dim=-1
        )
        queries = self._norm(queries.view(-1, shape.query_heads, shape.head), layer.query_norm)
        keys = self._norm(keys.view(-1, shape.key_heads, shape.head), layer.key_norm)
        values = values.view(-1, shape.key_heads, shape.head)
        contexts = self._attention(rotation.turn(queries), rotation.turn(keys), values, batch)
        return contexts.flatten(-2)

    def _feed_forward(self, layer: Qwen3Layer, hidden: Tensor, contexts: Tensor) -> Tensor:
        """The states after the layer, in ``hidden`` itself."""
        hidden.addmm_(contexts, layer.attention_output.T)
        gate, up = linear(self._norm(hidden, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
        return hidden.addmm_(silu(gate).mul_(up), layer.down.T)

    def _norm(self, states: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(states, weight.shape, weight, self._shape.norm_epsilon)

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> "_Rotation":
        angles = torch.outer(positions.to(torch.float32), self._frequencies).unsqueeze(1)
        return _Rotation(angles.cos().to(dtype), angles.sin().to(dtype))


class _Rotation:
    """Rotary position embedding (RoFormer, arXiv 2104.09864), with the halves of a head as the two axes."""

    def __init__(self, cosines: Tensor, sines: Tensor) -> None:
        """Both ``(tokens, 1, head / 2)``."""
        self._cosines = cosines
        self._sines = sines

    def turn(self, states: Tensor) -> Tensor:
        """``states``: ``(tokens, heads, head)``."""
        first, second = states.chunk(2, dim=-1)
        turned = torch.empty_like(states)
        left, right = turned.chunk(2, dim=-1)
        torch.mul(first, self._cosines, out=left).addcmul_(second, self._sines, value=-1.0)
        torch.mul(second, self._cosines, out=right).addcmul_(first, self._sines)
        return turned
