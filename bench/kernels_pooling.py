"""Pooling with codes, beside the same steps by torch's functions.

python -P -m precall.bench.kernels_pooling [--device cpu]
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from precall.bench.kernels_stage import KernelStage, run_kernel_benchmark
from precall.bench.results import Measurement

if TYPE_CHECKING:
    from torch import Tensor

    from precall.kernels.pooling import CodeRanges, Pooled


@dataclass(frozen=True, slots=True)
class PoolCase:
    """``tokens``: of each text."""

    name: str
    texts: int
    tokens: int
    hidden: int
    dimension: int
    pooling: str


CASES: Final = (
    PoolCase("mean, 256 of 128 x 384", 256, 128, 384, 384, "mean"),
    PoolCase("mean, 1 of 512 x 384", 1, 512, 384, 384, "mean"),
    PoolCase("last token, 512 of 64 x 1,024", 512, 64, 1_024, 1_024, "last_token"),
    PoolCase("last token, 512 of 64 x 4,096 to 1,024", 512, 64, 4_096, 1_024, "last_token"),
)
TINY: Final = (
    PoolCase("mean, 3 of 5 x 48", 3, 5, 48, 48, "mean"),
    PoolCase("last token, 2 of 3 x 64 to 32", 2, 3, 64, 32, "last_token"),
)


def measure_pooling(stage: KernelStage) -> list[Measurement]:
    """Raises AssertionError where the kernel and its reference disagree."""
    found: list[Measurement] = []
    for case in CASES if stage.measures else TINY:
        found += _measured(stage, case)
    return found


def _measured(stage: KernelStage, case: PoolCase) -> list[Measurement]:
    import torch

    from precall.kernels.pooling import CodeRanges, pool, pool_reference

    generator = torch.Generator(stage.device).manual_seed(1)
    shape = (case.texts * case.tokens, case.hidden)
    states = torch.randn(shape, generator=generator, device=stage.device).to(torch.bfloat16)
    bounds = torch.arange(case.texts + 1, dtype=torch.int32, device=stage.device) * case.tokens
    ranges = CodeRanges(
        torch.full((case.dimension,), -0.2, device=stage.device),
        torch.full((case.dimension,), 0.4, device=stage.device),
    )

    def ours() -> "Pooled":
        return pool(states, bounds, case.pooling, dimension=case.dimension, ranges=ranges)

    expected = pool_reference(states, bounds, case.pooling, dimension=case.dimension, ranges=ranges)
    torch.testing.assert_close(ours().vectors, expected.vectors, atol=6.2e-5, rtol=1e-3)
    read = case.texts * (case.tokens if case.pooling == "mean" else 1) * case.dimension * 2
    moved = read + case.texts * case.dimension * 3
    peers = {"torch": _by_torch(states, case, ranges)}
    return stage.figures("kernels", f"pool {case.name}", ours, moved, peers)


def _by_torch(states: "Tensor", case: PoolCase, ranges: "CodeRanges") -> Callable[[], object]:
    """Of texts of one length, which spares torch the bounds."""
    import torch

    def steps() -> object:
        own = states.view(case.texts, case.tokens, case.hidden)
        pooled = (own.float().mean(1) if case.pooling == "mean" else own[:, -1].float())[:, : case.dimension]
        vectors = torch.nn.functional.normalize(pooled, dim=1).half()
        shares = ((vectors.float() - ranges.minimum) / ranges.span).clamp(0, 1)
        return vectors, (shares * 255).to(torch.uint8)

    return steps


if __name__ == "__main__":
    sys.exit(run_kernel_benchmark(__doc__, measure_pooling))
