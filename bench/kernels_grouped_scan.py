"""The grouped scan on one large partition, on thousands of small ones and on a mixture, beside torch's own.

python -P -m precall.bench.kernels_grouped_scan [--device cpu]

*Torch, a launch a partition* is what a library with an index a tenant does: a product and a top-k for each,
here of float16 rows, which are twice the bytes. *Torch, one product* has all partitions of one size in one
batched product; no real set of partitions is like that. Each case is checked against the reference first.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from precall.bench.kernels_stage import KernelStage, run_kernel_benchmark
from precall.bench.results import Measurement

if TYPE_CHECKING:
    import torch

    from precall.kernels.grouped_scan import CodeArena, Pairs


@dataclass(frozen=True, slots=True)
class ScanCase:
    """``sizes``: rows of each partition; each is asked once."""

    name: str
    sizes: Sequence[int]
    width: int
    wanted: int
    beside_torch: bool = False


def _mixed(count: int, least: int, most: int) -> tuple[int, ...]:
    """Sizes whose logarithms are evenly spread."""
    return tuple(int(least * (most / least) ** (number / max(1, count - 1))) for number in range(count))


CASES: Final = (
    ScanCase("10,000,000 x 1,024, best 10", (10_000_000,), 1_024, 10),
    ScanCase("10,000,000 x 1,024, best 128", (10_000_000,), 1_024, 128),
    ScanCase("10,000,000 x 400, best 10", (10_000_000,), 400, 10),
    ScanCase("4,096 of 1,000 x 1,024, best 10", (1_000,) * 4_096, 1_024, 10, beside_torch=True),
    ScanCase("4,096 of 1,000 x 1,024, best 128", (1_000,) * 4_096, 1_024, 128),
    ScanCase("4,096 of 10 to 100,000 x 400, best 10", _mixed(4_096, 10, 100_000), 400, 10),
    ScanCase("1 of 1,000 x 400, best 10", (1_000,), 400, 10, beside_torch=True),
)
TINY: Final = (
    ScanCase("3 of 1 to 300 x 48, best 5", _mixed(3, 1, 300), 48, 5),
    ScanCase("2 of 50 x 32, best 10", (50, 50), 32, 10, beside_torch=True),
)
_CHECKED_ROWS: Final = 20_000_000


def measure_grouped_scan(stage: KernelStage) -> list[Measurement]:
    """Raises AssertionError where the kernel and its reference disagree."""
    found: list[Measurement] = []
    for case in CASES if stage.measures else TINY:
        found += _measured(stage, case)
    return found


def _measured(stage: KernelStage, case: ScanCase) -> list[Measurement]:
    from precall.kernels.grouped_scan import PROGRAMS, grouped_scan

    arena, pairs = _arena(case, stage.device)
    programs = PROGRAMS if stage.measures else 2

    def scan() -> object:
        return grouped_scan(arena, pairs, case.wanted, programs=programs)

    _check(arena, pairs, case, programs)
    moved = sum(case.sizes) * (case.width + 1) + len(case.sizes) * case.width * 3 * 4
    peers = _torch_peers(arena, pairs, case) if case.beside_torch else None
    return stage.figures("kernels", f"scan {case.name}", scan, moved, peers)


def _arena(case: ScanCase, device: "torch.device") -> "tuple[CodeArena, Pairs]":
    import torch

    from precall.kernels.grouped_scan import CodeArena, Pairs

    generator = torch.Generator(device).manual_seed(1)
    lengths = torch.tensor(case.sizes, dtype=torch.int32, device=device)
    count, rows = len(case.sizes), sum(case.sizes)
    starts = lengths.long().cumsum(0) - lengths
    queries = torch.randn((count, case.width), generator=generator, device=device)
    numbers = torch.arange(count, dtype=torch.int32, device=device)
    arena = CodeArena(
        torch.randint(0, 256, (rows, case.width), generator=generator, dtype=torch.uint8, device=device),
        torch.rand(rows, generator=generator, device=device) < 0.9,
        starts,
        lengths,
        torch.rand((count, case.width), generator=generator, device=device) * 0.002,
        torch.randn((count, case.width), generator=generator, device=device) * 0.02,
    )
    return arena, Pairs(queries / queries.norm(dim=1, keepdim=True), numbers, numbers.clone())


def _check(arena: "CodeArena", pairs: "Pairs", case: ScanCase, programs: int) -> None:
    """Of some pairs, evenly chosen, as many as make few enough rows."""
    import torch

    from precall.kernels.grouped_scan import Pairs, grouped_scan, grouped_scan_reference

    step = max(1, sum(case.sizes) // _CHECKED_ROWS, len(case.sizes) // 64)
    some = Pairs(pairs.queries, pairs.query_of[::step].clone(), pairs.partition_of[::step].clone())
    expected = grouped_scan_reference(arena, some, case.wanted).totals
    found = grouped_scan(arena, pairs, case.wanted, programs=programs).totals[::step]
    torch.testing.assert_close(found, expected, atol=5e-6, rtol=1e-5)


def _torch_peers(arena: "CodeArena", pairs: "Pairs", case: ScanCase) -> dict[str, Callable[[], object]]:
    """Of partitions of one size. Neither leaves out what is dead, nor adds what is the same for all rows."""
    count, size = len(case.sizes), case.sizes[0]
    wanted = min(case.wanted, size)
    rows = arena.codes.half().sub_(128).view(count, size, case.width)
    folded = (pairs.queries * arena.steps * 64).half()[:, :, None]

    def one_by_one() -> object:
        return [(rows[number] @ folded[number])[:, 0].topk(wanted) for number in range(count)]

    def at_once() -> object:
        return (rows @ folded)[:, :, 0].topk(wanted)

    return {"torch, a launch a partition": one_by_one, "torch, one product": at_once}


if __name__ == "__main__":
    sys.exit(run_kernel_benchmark(__doc__, measure_grouped_scan))
