"""The weights of a Qwen3 model on its device, joined where one product can do the work of several."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
from precall.engine.encoding.torch_device import Placement
from precall.engine.errors import ModelUnavailable

_BASE_PREFIX = "model."
"""Published embedding models name their tensors without it, rerankers and fine-tuned models with it."""


@dataclass(frozen=True, slots=True)
class Qwen3Layer:
    """Matrices are ``(outputs, inputs)``. ``query_key_value`` and ``gate_up`` are stacked in that order."""

    attention_norm: Tensor
    query_key_value: Tensor
    query_norm: Tensor
    key_norm: Tensor
    attention_output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Qwen3Weights:
    """``embedding``: ``(vocabulary, hidden)``; ``answers``: rows of the output matrix, if asked for."""

    embedding: Tensor
    layers: tuple[Qwen3Layer, ...]
    final_norm: Tensor
    answers: Tensor | None

    @classmethod
    def load(
        cls,
        shards: Sequence[Path],
        architecture: Qwen3Architecture,
        placement: Placement,
        *,
        answer_tokens: Sequence[int] = (),
    ) -> "Qwen3Weights":
        """Read layer by layer, so that little more than the model itself is ever in memory.

        ``answer_tokens`` picks the output rows to keep, as ``answers`` ``(len, hidden)``: all of them would
        be a matrix as large as the embedding. Raises ``ModelUnavailable`` for files that are damaged or of
        another shape.
        """
        try:
            with ExitStack() as stack:
                reader = _Reader(shards, architecture, placement, stack)
                return cls(
                    embedding=reader.base(
                        "embed_tokens.weight", architecture.vocabulary, architecture.hidden
                    ),
                    layers=tuple(reader.layer(number) for number in range(architecture.layers)),
                    final_norm=reader.base("norm.weight", architecture.hidden),
                    answers=reader.answers(answer_tokens) if answer_tokens else None,
                )
        except torch.OutOfMemoryError as error:
            raise ModelUnavailable(
                f"the model in {shards[0].parent} does not fit into the memory of {placement.device}: "
                "take a smaller model or bfloat16, or free the device"
            ) from error


class _Reader:
    """Named tensors from several files, checked and moved. Lives as long as ``stack``."""

    def __init__(
        self,
        shards: Sequence[Path],
        architecture: Qwen3Architecture,
        placement: Placement,
        stack: ExitStack,
    ) -> None:
        from safetensors import SafetensorError, safe_open

        self._folder = shards[0].parent
        self._shape = architecture
        self._placement = placement
        self._files: dict[str, Any] = {}
        for shard in shards:
            try:
                file = stack.enter_context(safe_open(shard, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelUnavailable(
                    f"the weights in {shard} are damaged or cut short ({error}): download them again"
                ) from error
            self._files |= dict.fromkeys(file.keys(), file)
        prefixed = f"{_BASE_PREFIX}embed_tokens.weight" in self._files
        self._prefix = _BASE_PREFIX if prefixed else ""

    def base(self, name: str, *shape: int) -> Tensor:
        return self._tensor(self._prefix + name, shape)

    def layer(self, number: int) -> Qwen3Layer:
        shape, prefix = self._shape, f"layers.{number}."
        hidden, inner = shape.hidden, shape.intermediate
        return Qwen3Layer(
            attention_norm=self.base(prefix + "input_layernorm.weight", hidden),
            query_key_value=torch.cat(
                [
                    self.base(prefix + "self_attn.q_proj.weight", shape.query_width, hidden),
                    self.base(prefix + "self_attn.k_proj.weight", shape.key_width, hidden),
                    self.base(prefix + "self_attn.v_proj.weight", shape.key_width, hidden),
                ]
            ),
            query_norm=self.base(prefix + "self_attn.q_norm.weight", shape.head),
            key_norm=self.base(prefix + "self_attn.k_norm.weight", shape.head),
            attention_output=self.base(prefix + "self_attn.o_proj.weight", hidden, shape.query_width),
            mlp_norm=self.base(prefix + "post_attention_layernorm.weight", hidden),
            gate_up=torch.cat(
                [
                    self.base(prefix + "mlp.gate_proj.weight", inner, hidden),
                    self.base(prefix + "mlp.up_proj.weight", inner, hidden),
                ]
            ),
            down=self.base(prefix + "mlp.down_proj.weight", hidden, inner),
        )

    def answers(self, tokens: Sequence[int]) -> Tensor:
        name = self._prefix + "embed_tokens.weight" if self._shape.tied_embedding else "lm_head.weight"
        rows = self._tensor(name, (self._shape.vocabulary, self._shape.hidden), keep_on_host=True)
        return rows[list(tokens)].to(self._placement.device, self._placement.dtype)

    def _tensor(self, name: str, shape: tuple[int, ...], *, keep_on_host: bool = False) -> Tensor:
        file = self._files.get(name)
        if file is None:
            raise ModelUnavailable(
                f"the weights in {self._folder} have no {name}: download them again, or name a Qwen3 model"
            )
        tensor: Tensor = file.get_tensor(name)
        if tensor.shape != shape:
            raise ModelUnavailable(
                f"{name} in {self._folder} has shape {tuple(tensor.shape)} where config.json says {shape}: "
                "download the model again"
            )
        return tensor if keep_on_host else tensor.to(self._placement.device, self._placement.dtype)
