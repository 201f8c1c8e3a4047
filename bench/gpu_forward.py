"""Qwen3 through our forward pass, put together by hand so that a part of it can be left out."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.packing_texts import PackedTexts

if TYPE_CHECKING:
    from torch import Tensor

    from precall.engine.encoding.torch_attention import PackedTensors
    from precall.engine.encoding.torch_device import Placement
    from precall.engine.encoding.torch_runner import PackedRunner


class PlainForward:
    """What ``Qwen3Encoder`` computes on tokens. ``runner`` and ``plain_runner`` share the weights."""

    def __init__(self, folder: Path, placement: "Placement") -> None:
        from precall.engine.encoding.qwen3_architecture import Qwen3Architecture
        from precall.engine.encoding.qwen3_model import Qwen3Model
        from precall.engine.encoding.qwen3_weights import Qwen3Weights
        from precall.engine.encoding.torch_attention import choose_attention

        self.placement = placement
        architecture = Qwen3Architecture.read(folder / "config.json")
        weights = Qwen3Weights.load([folder / "model.safetensors"], architecture, placement)
        self._model = Qwen3Model(architecture, weights, choose_attention(placement))

    def unit_vectors(self, batch: "PackedTensors") -> "Tensor":
        import torch

        return torch.nn.functional.normalize(self._model.last_hidden(batch).to(torch.float32), dim=-1)

    def rows(self, packed: PackedTexts) -> NDArray[np.float32]:
        """Unit vectors of one pass that is neither cut nor replayed."""
        import torch

        from precall.engine.encoding.torch_attention import PackedTensors

        buffer = torch.from_numpy(packed.buffer).to(self.placement.device)
        with torch.inference_mode():
            rows = self.unit_vectors(PackedTensors.of(buffer, packed))
        return np.asarray(rows.cpu().numpy(), dtype=np.float32)

    def runner(self) -> "PackedRunner":
        """As in the encoder: on a GPU, small passes are recorded now and replayed."""
        from precall.engine.encoding.torch_runner import PackedRunner

        return PackedRunner(self.unit_vectors, self.placement)

    def plain_runner(self) -> "PackedRunner":
        """Nothing is recorded: each kernel is launched by itself."""
        from precall.engine.encoding.torch_runner import PackedRunner

        return PackedRunner(self.unit_vectors, self.placement, replay=lambda packed: None)
