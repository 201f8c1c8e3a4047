"""Qwen3 models of random weights, for a machine that has neither the real ones nor a network."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXT_TOKENS = 259
"""Ids below this one stand for bytes and for the pieces of "yes" and "no"; the special tokens come next."""

_LETTERS = "abcdefghijklm"  # neither "yes" nor "no" can be written, so that a letter is a token
_ANSWER_SPREAD = (
    0.4  # pairs that end in the same words have states so much alike that narrower rows tell none apart
)

Texts = Sequence[NDArray[np.int64]]
"""Token ids, int64, each of shape ``(n,)``."""


@dataclass(frozen=True)
class Qwen3Shape:
    """By default Qwen3-Embedding-0.6B's, from its published ``config.json``."""

    layers: int = 28
    hidden: int = 1_024
    intermediate: int = 3_072
    query_heads: int = 16
    key_heads: int = 8
    head: int = 128
    vocabulary: int = 151_669

    def pass_operations(self, lengths: Sequence[int]) -> int:
        """Floating-point operations of one pass that are needed, a multiply-add counted as two.

        Two a weight and token in the matrix products, four a query width and pair of positions in attention
        (scores and contexts), of which the causal mask leaves n (n + 1) / 2 a text of n tokens
        (Kaplan and others, arXiv 2001.08361, section 2.1). There is no vocabulary part: an embedding model
        has no output matrix. In the last layer only a text's last token goes beyond its keys and values.
        Norms, rotations and activations, under one percent, are left out.
        """
        width = self.query_heads * self.head
        joined = self.hidden * (width + 2 * self.key_heads * self.head)
        rest = width * self.hidden + 3 * self.hidden * self.intermediate
        tokens = sum(lengths)
        matrices = 2 * (self.layers * tokens * joined + ((self.layers - 1) * tokens + len(lengths)) * rest)
        pairs = sum(length * (length + 1) // 2 for length in lengths)
        return matrices + 4 * self.layers * width * pairs


TINY = Qwen3Shape(
    layers=2, hidden=64, intermediate=160, query_heads=4, key_heads=2, head=32, vocabulary=1_024
)
"""Real in every part and of no size."""


@dataclass(frozen=True)
class RandomQwen3:
    """``spread``: standard deviation of the matrices' entries. Wide ones make every layer of a tiny model
    change the state; those of a deep one must stay small, or its states overflow half precision.
    """

    shape: Qwen3Shape = TINY
    reranker: bool = False
    """Save it as the rerankers are: prefixed names, and an output matrix of its own."""

    poisoned_token: int | None = None
    """A token whose embedding is not a number."""

    spread: float = 0.08
    seed: int = 7

    def save(self, folder: Path, *, device: str = "cpu") -> Path:
        """Write ``config.json``, ``tokenizer.json`` and bfloat16 weights into ``folder``, which is made.

        The weights are drawn on ``device``: a processor takes many seconds for those of the 0.6B shape.
        """
        import torch
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self._config()), encoding="utf-8")
        (folder / "tokenizer.json").write_text(byte_tokenizer_json(), encoding="utf-8")
        chance = torch.Generator(device).manual_seed(self.seed)
        weights = {
            name: self._draw(name, shape, chance).contiguous().cpu()
            for name, shape in self._tensors().items()
        }
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    def _draw(self, name: str, shape: tuple[int, ...], chance: "torch.Generator") -> "Tensor":
        import torch

        drawn = torch.empty(shape, dtype=torch.float32, device=chance.device)
        if "norm" in name:  # ones would hide a norm that is left out
            drawn.uniform_(0.5, 1.5, generator=chance)
        else:
            drawn.normal_(0.0, self._spread(name), generator=chance)
        if "embed" in name and self.poisoned_token is not None:
            drawn[self.poisoned_token] = float("nan")
        return drawn.to(torch.bfloat16)

    def _spread(self, name: str) -> float:
        if "embed" in name:
            return 0.02
        return _ANSWER_SPREAD if "lm_head" in name else self.spread

    def _tensors(self) -> dict[str, tuple[int, ...]]:
        """Names as the published models have them, and shapes."""
        shape = self.shape
        width, key_width = shape.query_heads * shape.head, shape.key_heads * shape.head
        layer = {
            "input_layernorm": (shape.hidden,),
            "self_attn.q_proj": (width, shape.hidden),
            "self_attn.k_proj": (key_width, shape.hidden),
            "self_attn.v_proj": (key_width, shape.hidden),
            "self_attn.q_norm": (shape.head,),
            "self_attn.k_norm": (shape.head,),
            "self_attn.o_proj": (shape.hidden, width),
            "post_attention_layernorm": (shape.hidden,),
            "mlp.gate_proj": (shape.intermediate, shape.hidden),
            "mlp.up_proj": (shape.intermediate, shape.hidden),
            "mlp.down_proj": (shape.hidden, shape.intermediate),
        }
        names: dict[str, tuple[int, ...]] = {"embed_tokens": (shape.vocabulary, shape.hidden)}
        for number in range(shape.layers):
            names |= {f"layers.{number}.{name}": size for name, size in layer.items()}
        names["norm"] = (shape.hidden,)
        prefix = "model." if self.reranker else ""
        tensors = {f"{prefix}{name}.weight": size for name, size in names.items()}
        return tensors | ({"lm_head.weight": (shape.vocabulary, shape.hidden)} if self.reranker else {})

    def _config(self) -> dict[str, Any]:
        shape = self.shape
        return {
            "model_type": "qwen3",
            "architectures": ["Qwen3ForCausalLM" if self.reranker else "Qwen3Model"],
            "vocab_size": shape.vocabulary,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.query_heads,
            "num_key_value_heads": shape.key_heads,
            "head_dim": shape.head,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 32_768,
            "tie_word_embeddings": not self.reranker,
            "rope_theta": 1_000_000.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "torch_dtype": "bfloat16",
        }


def byte_tokenizer_json() -> str:
    """A ``tokenizer.json`` for which a byte is a token, but for the reranker's two answers."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "no", "ye", "yes"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("n", "o"), ("y", "e"), ("ye", "s")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    return str(tokenizer.to_str())


def random_texts(lengths: Sequence[int], seed: int, vocabulary: int = TEXT_TOKENS) -> Texts:
    """Token ids below ``vocabulary``, a text for each length."""
    chance = np.random.default_rng(seed)
    return [chance.integers(0, vocabulary, length) for length in lengths]


def text_of(tokens: int, chance: np.random.Generator) -> str:
    """A text that ``byte_tokenizer_json`` makes ``tokens`` tokens of, the closing one included."""
    letters = chance.choice(list(_LETTERS), tokens - 1)
    letters[7::8] = " "  # words: the tokenizer works word by word
    return "".join(letters.tolist()).strip().ljust(tokens - 1, "a")
