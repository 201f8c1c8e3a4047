"""Qwen3 as transformers runs it: the yardstick of what is right, and the peer of what is fast."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precall.bench.gpu_model import Texts

if TYPE_CHECKING:
    from torch import Tensor

    from precall.engine.encoding.torch_device import Placement


class TransformersQwen3:
    """One model on one device, in the attention that transformers takes by itself."""

    def __init__(self, folder: Path, placement: "Placement", *, reranker: bool = False) -> None:
        from transformers import AutoModel, AutoModelForCausalLM

        kind: Any = AutoModelForCausalLM if reranker else AutoModel
        model = kind.from_pretrained(str(folder), local_files_only=True, dtype=placement.dtype)
        self._model = model.to(placement.device).eval()
        self._placement = placement

    def vectors(self, texts: Texts) -> NDArray[np.float32]:
        """Unit vectors, ``(n, hidden)``, of the texts as one batch."""
        import torch

        with torch.inference_mode():
            states = self._model(**self._padded(texts), use_cache=False).last_hidden_state
            rows = torch.nn.functional.normalize(states[:, -1].to(torch.float32), dim=-1)
        return np.asarray(rows.cpu().numpy(), dtype=np.float32)

    def vectors_one_by_one(self, texts: Texts) -> NDArray[np.float32]:
        """The same with no padding at all."""
        return np.concatenate([self.vectors([text]) for text in texts])

    def yes_probabilities(self, texts: Texts, answers: Sequence[int]) -> NDArray[np.float32]:
        """``answers``: ids of "no" and "yes". Softmax over their logits, text by text: ``(n,)``."""
        import torch

        scores = []
        for text in texts:
            with torch.inference_mode():
                logits = self._model(**self._padded([text]), use_cache=False, logits_to_keep=1).logits[0, -1]
                scores.append(logits[list(answers)].to(torch.float32).softmax(dim=-1)[1].item())
        return np.array(scores, dtype=np.float32)

    def _padded(self, texts: Texts) -> "dict[str, Tensor]":
        """On the left, with its mask, as the models' page shows."""
        import torch

        longest = max(len(text) for text in texts)
        token_ids = torch.zeros((len(texts), longest), dtype=torch.int64)
        mask = torch.zeros_like(token_ids)
        for row, text in enumerate(texts):
            token_ids[row, longest - len(text) :] = torch.from_numpy(text)
            mask[row, longest - len(text) :] = 1
        inputs = {
            "input_ids": token_ids,
            "attention_mask": mask,
            "position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0),
        }
        return {name: tensor.to(self._placement.device) for name, tensor in inputs.items()}
