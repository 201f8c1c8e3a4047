"""The shape of a Qwen3 model, read from its ``config.json`` and checked against what this code computes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precall.engine.errors import ModelUnavailable

_ASSUMED: Mapping[str, object] = {
    "model_type": "qwen3",
    "hidden_act": "silu",
    "attention_bias": False,
    "use_sliding_window": False,
}
"""Settings that the forward pass takes for granted. Another value is refused: it would give wrong vectors."""


@dataclass(frozen=True, slots=True)
class Qwen3Architecture:
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    query_heads: int
    key_heads: int
    head: int
    norm_epsilon: float
    rotary_base: float
    max_positions: int
    tied_embedding: bool
    """Whether the output matrix is the embedding matrix."""

    @property
    def query_width(self) -> int:
        return self.query_heads * self.head

    @property
    def key_width(self) -> int:
        """Width of the keys, and of the values."""
        return self.key_heads * self.head

    @classmethod
    def read(cls, path: Path) -> "Qwen3Architecture":
        """Raises ``ModelUnavailable`` if the file is missing, broken, or describes another kind of model."""
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            _require_assumed(config, path)
            architecture = cls(
                vocabulary=int(config["vocab_size"]),
                hidden=int(config["hidden_size"]),
                intermediate=int(config["intermediate_size"]),
                layers=int(config["num_hidden_layers"]),
                query_heads=int(config["num_attention_heads"]),
                key_heads=int(config["num_key_value_heads"]),
                head=int(config["head_dim"]),
                norm_epsilon=float(config["rms_norm_eps"]),
                rotary_base=_rotary_base(config, path),
                max_positions=int(config["max_position_embeddings"]),
                tied_embedding=bool(config.get("tie_word_embeddings", False)),
            )
        except OSError as error:
            raise ModelUnavailable(
                f"{path} cannot be read ({error.strerror or error}): download the model again"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelUnavailable(
                f"{path} is not the configuration of a Qwen3 model ({type(error).__name__}: {error}): "
                "download the model again, or name another one"
            ) from error
        return architecture


def _require_assumed(config: Mapping[str, Any], path: Path) -> None:
    for name, assumed in _ASSUMED.items():
        actual = config.get(name, assumed)
        if actual != assumed:
            raise ModelUnavailable(
                f"{path} has {name} {actual!r} where Qwen3-Embedding and Qwen3-Reranker have {assumed!r}: "
                "this engine does not run that model"
            )


def _rotary_base(config: Mapping[str, Any], path: Path) -> float:
    """``rope_theta``, which newer files keep in ``rope_parameters``. Stretched contexts are refused."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise ModelUnavailable(f"{path} asks for rotary embedding {kind!r}: only the default one is run here")
    return float(parameters.get("rope_theta") or config["rope_theta"])
