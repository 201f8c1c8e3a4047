"""Late interaction of a query with the candidates of a search, beside the same by torch's functions.

python -P -m precall.bench.kernels_late_interaction [--device cpu]
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from precall.bench.kernels_stage import KernelStage, run_kernel_benchmark
from precall.bench.results import Measurement

if TYPE_CHECKING:
    from torch import Tensor

    from precall.kernels.late_interaction import TokenVectors


@dataclass(frozen=True, slots=True)
class InteractionCase:
    """Each query with each document of its own; ``asked``, ``told``: tokens of each."""

    name: str
    queries: int
    documents: int
    asked: int
    told: int
    width: int
    half: bool


CASES: Final = (
    InteractionCase("1 with 100 x 64 tokens, float32", 1, 100, 16, 64, 384, half=False),
    InteractionCase("64 with 100 x 64 tokens, float32", 64, 100, 16, 64, 384, half=False),
    InteractionCase("64 with 100 x 64 tokens, float16", 64, 100, 16, 64, 384, half=True),
    InteractionCase("16 with 100 x 256 tokens, float16", 16, 100, 32, 256, 384, half=True),
)
TINY: Final = (
    InteractionCase("2 with 3 x 5 tokens, float32", 2, 3, 4, 5, 32, half=False),
    InteractionCase("1 with 2 x 70 tokens, float16", 1, 2, 17, 70, 48, half=True),
)


def measure_late_interaction(stage: KernelStage) -> list[Measurement]:
    """Raises AssertionError where the kernel and its reference disagree."""
    found: list[Measurement] = []
    for case in CASES if stage.measures else TINY:
        found += _measured(stage, case)
    return found


def _measured(stage: KernelStage, case: InteractionCase) -> list[Measurement]:
    import torch

    from precall.kernels.late_interaction import TokenVectors, late_interaction, late_interaction_reference

    device = stage.device
    generator = torch.Generator(device).manual_seed(1)

    def texts(count: int, tokens: int) -> TokenVectors:
        vectors = torch.randn((count * tokens, case.width), generator=generator, device=device)
        vectors /= vectors.norm(dim=1, keepdim=True)
        bounds = torch.arange(count + 1, dtype=torch.int32, device=device) * tokens
        return TokenVectors(vectors.half() if case.half else vectors, bounds)

    queries = texts(case.queries, case.asked)
    documents = texts(case.queries * case.documents, case.told)
    weights = torch.full((len(queries.vectors),), 1 / case.asked, device=device)
    document_of = torch.arange(case.queries * case.documents, dtype=torch.int32, device=device)
    query_of = document_of // case.documents

    def ours() -> "Tensor":
        return late_interaction(queries, documents, weights, query_of, document_of)

    expected = late_interaction_reference(queries, documents, weights, query_of, document_of)
    torch.testing.assert_close(ours(), expected, atol=5e-6, rtol=1e-5)
    moved = documents.vectors.nbytes + queries.vectors.nbytes + weights.nbytes + 4 * len(document_of)
    peers = {"torch": _by_torch(queries, documents, weights, case)}
    return stage.figures("kernels", f"interaction {case.name}", ours, moved, peers)


def _by_torch(
    queries: "TokenVectors", documents: "TokenVectors", weights: "Tensor", case: InteractionCase
) -> Callable[[], object]:
    """Of texts of one length, which spares torch the padding."""
    asked = queries.vectors.view(case.queries, case.asked, case.width)
    told = documents.vectors.view(case.queries, case.documents * case.told, case.width)
    own = weights.view(case.queries, 1, case.asked)

    def steps() -> object:
        cosines = (asked @ told.mT).view(case.queries, case.asked, case.documents, case.told)
        return (own @ cosines.amax(3).clamp(0, 1).float())[:, 0]

    return steps


if __name__ == "__main__":
    sys.exit(run_kernel_benchmark(__doc__, measure_late_interaction))
