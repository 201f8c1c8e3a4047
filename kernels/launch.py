"""A kernel with the constants that it is compiled with: one place for what runs and for what CI compiles."""

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Launch:
    """``function``: what ``triton.jit`` made. ``types``: of its arguments in order, constants left out, as
    Triton writes them: ``*u8`` is a pointer to bytes. ``stages``: loads in flight in a loop.
    """

    function: Any
    types: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    warps: int = 4
    stages: int = 3

    def run(self, programs: int, *arguments: Any) -> None:
        """Start it on the current stream of the first argument's device; returns before it has run."""
        options = {"num_warps": self.warps, "num_stages": self.stages}
        with torch.cuda.device_of(arguments[0]):  # Triton takes the current device, wherever tensors are
            self.function[(programs,)](*arguments, **self.constants, **options)
