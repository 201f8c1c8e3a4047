"""Where and how precisely a torch model computes."""

from dataclasses import dataclass

import torch

from precall.engine.errors import ConfigurationError

_CPU_PASS_TOKENS = 1_024
_GPU_PASS_TOKENS = 32_768
_FLASH_CAPABILITY = (8, 0)


@dataclass(frozen=True, slots=True)
class Placement:
    device: torch.device
    dtype: torch.dtype

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def has_variable_length_attention(self) -> bool:
        """Whether one kernel attends to packed texts of any lengths: flash attention, half precision, from
        the Ampere generation on. Only such a pass looks the same to the host whatever its texts' lengths are,
        so only such a pass can be recorded.
        """
        if not (self.on_gpu and self.dtype in (torch.bfloat16, torch.float16)):
            return False
        return torch.cuda.get_device_capability(self.device) >= _FLASH_CAPABILITY

    def prepare(self) -> None:
        """Make products of half precision add up in float32, in the whole process.

        By default a GPU may cut a product of few rows into parts and add those in half precision, which would
        give a lone text another vector than the same text in a large batch.
        """
        if self.on_gpu:
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    @property
    def default_pass_tokens(self) -> int:
        """Tokens of one forward pass. Measured on a processor (0.6B shape, 32 texts of 64 tokens, seconds of
        one core for four layers): 5.0 in passes of 64, 3.5 of 256, 3.4 of 1,024 and of 2,048. A GPU's is
        not measured yet.
        """
        return _GPU_PASS_TOKENS if self.on_gpu else _CPU_PASS_TOKENS

    @classmethod
    def choose(cls, device: str, dtype: str) -> "Placement":
        """``auto`` is the first GPU if there is one; bfloat16 there, float32 on a processor.

        Raises ``ConfigurationError`` for a device that this machine does not have.
        """
        try:
            chosen = torch.device(_best_device() if device == "auto" else device)
        except RuntimeError as error:
            raise ConfigurationError(f"model device must be auto, cpu or cuda, not {device!r}") from error
        if chosen.type not in ("cpu", "cuda"):
            raise ConfigurationError(f"model device must be auto, cpu or cuda, not {device!r}")
        if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
            raise ConfigurationError(
                f"the model's device is {device!r} and torch sees {torch.cuda.device_count()} GPUs: "
                "set it to cpu, or install torch for CUDA and look at the driver"
            )
        if dtype == "auto":
            return cls(chosen, torch.bfloat16 if chosen.type == "cuda" else torch.float32)
        precision = getattr(torch, dtype, None)
        if not isinstance(precision, torch.dtype):
            raise ConfigurationError(f"model dtype must be auto, float32, bfloat16 or float16, not {dtype!r}")
        return cls(chosen, precision)


def _best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
