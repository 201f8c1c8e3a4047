"""What may be concluded from the vector of a light encoder, which lies near the model's own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from precall.scoring.evidence import TOP
from precall.scoring.ranking import Ranked, RankingWeights

SPREADS: Final = 2.0
"""By how many ``score``s the served must lead. With wordllama's vectors, which are very unlike MiniLM's,
0.3 % of all reads of held-out LoCoMo conversations are wrong at 2, and 2 % at 1.5 (`precall.bench.light`).
"""


@dataclass(frozen=True, slots=True)
class Approximation:
    """How far a query's light vector ``r'`` lies from the model's ``r``; 95 of 100 queries stay below each.

    ``distance``: ``|r' - r|``. ``score``: the standard deviation of ``(r' - r) . d`` over memories ``d``;
    what all memories gain or lose alike changes no order. Both are measured where the encoder was made, on
    texts that it was not fitted on; infinite for a text that it cannot read.
    """

    distance: float
    score: float

    def __post_init__(self) -> None:
        for name in ("distance", "score"):
            if not getattr(self, name) >= 0.0:  # NaN fails this too
                raise ValueError(f"{name} must be 0 or more, it is {getattr(self, name)}")

    def doubt(self, weights: RankingWeights) -> float:
        """How far the difference of two totals may be from what it is by the model's own vector."""
        return weights.relevance * (1 - weights.fusion.share) * SPREADS * self.score

    def settles(
        self,
        ranked: Sequence[Ranked],
        weights: RankingWeights,
        *,
        limit: int,
        unheld: float = -math.inf,
    ) -> bool:
        """Whether the ``limit`` to be served have the best three by the model's own vector among them.

        ``ranked``: the best by the light vector, best first, ``limit + 1`` of them unless there are fewer.
        ``unheld``: the total by the light vector that no memory exceeds which is not held. What is not served
        must lie so far behind the third that no likely error lifts it over.
        """
        following = ranked[limit].total if len(ranked) > limit else -math.inf
        following = max(following, unheld)
        if following == -math.inf:
            return True  # all there is
        served = min(TOP, limit)
        return len(ranked) >= served and ranked[served - 1].total - following >= self.doubt(weights)


UNREADABLE: Final = Approximation(math.inf, math.inf)
"""Of a text in a script that the light encoder does not read."""
