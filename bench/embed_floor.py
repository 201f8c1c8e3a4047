"""What the arithmetic alone takes: multiplications a token, and how fast this machine multiplies."""

import time
from typing import Final

LAYERS: Final = 6
WIDTH: Final = 384
INNER: Final = 1_536

FLOP_A_TOKEN: Final = LAYERS * 2 * (4 * WIDTH**2 + 2 * WIDTH * INNER)
"""Of MiniLM-L6's matrix products: four of the attention and two of the feed-forward part a layer, two
operations a multiply-add. Queries times keys comes on top and grows with length: 2 % at 40 tokens.
"""


def multiply_rate(tokens: int = 256, repeats: int = 60) -> float:
    """FLOP a second of float32 products in the model's largest shape, the best of ``repeats``.

    torch's own product is taken: it is the fastest here, and the best of many is what a quiet machine gives.
    """
    import torch

    left, right = torch.randn(tokens, WIDTH), torch.randn(WIDTH, INNER)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - begin)
    return 2 * tokens * WIDTH * INNER / best
