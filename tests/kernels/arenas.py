"""Arenas of random codes, as the tests of the grouped scan need them."""

from collections.abc import Sequence

import torch

from precall.kernels.grouped_scan import CodeArena, Pairs


def random_arena(
    sizes: Sequence[int],
    width: int,
    *,
    generator: torch.Generator,
    device: torch.device,
    dead: float = 0.0,
    between: int = 3,
) -> CodeArena:
    """Partitions of these sizes, ``between`` foreign rows before each of them, a share of the slots dead."""
    starts, row = [], 0
    for size in sizes:
        row += between
        starts.append(row)
        row += size
    rows = row + between
    count = len(sizes)
    return CodeArena(
        torch.randint(0, 256, (rows, width), generator=generator, dtype=torch.uint8).to(device),
        (torch.rand(rows, generator=generator) >= dead).to(device),
        torch.tensor(starts, dtype=torch.int64, device=device),
        torch.tensor(sizes, dtype=torch.int32, device=device),
        (torch.rand((count, width), generator=generator) * 0.002).to(device),
        (torch.randn((count, width), generator=generator) * 0.02).to(device),
    )


def unit_queries(count: int, width: int, *, generator: torch.Generator) -> torch.Tensor:
    queries = torch.randn((count, width), generator=generator)
    return queries / queries.norm(dim=1, keepdim=True)


def pairs_of(queries: torch.Tensor, asked: Sequence[tuple[int, int]], device: torch.device) -> Pairs:
    """``asked``: a query's and a partition's number, each."""
    numbers = torch.tensor(asked, dtype=torch.int32).reshape(-1, 2)
    return Pairs(
        queries.to(device).contiguous(),
        numbers[:, 0].clone().to(device),
        numbers[:, 1].clone().to(device),
    )
