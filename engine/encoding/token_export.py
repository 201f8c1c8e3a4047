"""MiniLM exported so that each token keeps its vector, for the reranker that compares token with token."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from precall.engine.encoding.card import ModelCard
from precall.engine.encoding.exported import ExportedEncoder
from precall.engine.encoding.minilm import ModelFiles
from precall.engine.encoding.onnx_export import ensure_exported, write_transformer

if TYPE_CHECKING:
    import torch

TOKEN_OUTPUT: Final = "token_vectors"
"""The graph's output: unit vectors of the last layer, float32 ``(n, tokens, d)``, those of padding too."""

_SUFFIX: Final = "-tokens"


def ensure_token_export(files: ModelFiles, card: ModelCard, cache_dir: Path | None = None) -> ExportedEncoder:
    """As ``ensure_exported``, kept beside the encoder's own export; no client fetches it."""
    return ensure_exported(files, card, cache_dir, suffix=_SUFFIX, write_graph=_write_token_graph)


def _write_token_graph(files: ModelFiles, aside: Path) -> None:
    write_transformer(files, aside, _unpooled, output=TOKEN_OUTPUT, axes={0: "texts", 1: "tokens"})


def _unpooled(transformer: "torch.nn.Module") -> "torch.nn.Module":
    """Every token's last hidden state, made of length 1."""
    import torch

    class Unpooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            return torch.nn.functional.normalize(hidden, dim=2)

    return Unpooled()
