"""What the device can do at best, measured in the same run as everything that is held against it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_ROUNDS = 5
_CALLS = 10


@dataclass(frozen=True)
class Ceilings:
    copy_gigabytes_a_second: float
    """Of a copy within the device's memory; bytes read and bytes written both count."""

    bfloat16_teraflops: float
    """Of a square matrix product of random numbers, a multiply-add counted as two."""


def measure_ceilings(device: "torch.device", *, copied_bytes: int = 2**30, side: int = 8_192) -> Ceilings:
    return Ceilings(_copy_rate(device, copied_bytes) / 1e9, _product_rate(device, side) / 1e12)


def _copy_rate(device: "torch.device", copied_bytes: int) -> float:
    """Bytes a second."""
    import torch

    source = torch.randint(0, 255, (copied_bytes,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * copied_bytes / best_seconds(lambda: target.copy_(source), device)


def _product_rate(device: "torch.device", side: int) -> float:
    """Operations a second. Of random numbers: zeros run faster than any real ones."""
    import torch

    left = torch.randn((side, side), device=device).to(torch.bfloat16)
    right = torch.randn((side, side), device=device).to(torch.bfloat16)
    product = torch.empty_like(left)
    return 2 * side**3 / best_seconds(lambda: torch.matmul(left, right, out=product), device)


def best_seconds(call: Callable[[], object], device: "torch.device") -> float:
    """Of one call, from the best of some rounds of several in a row. The first round is not counted."""
    import torch

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    seconds = []
    for _ in range(1 + _ROUNDS):
        wait()
        begin = time.perf_counter()
        for _ in range(_CALLS):
            call()
        wait()
        seconds.append((time.perf_counter() - begin) / _CALLS)
    return min(seconds[1:])
