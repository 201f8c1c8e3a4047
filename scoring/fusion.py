"""Dense and keyword evidence made one relevance, from the two scores of the item alone.

Scores are added, not ranks: a rank depends on which other candidates were seen, and a cache sees fewer
than the server; a sum of two bounded scores is the same wherever it is computed. How much each leg counts
depends on the query alone.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.query_terms import QueryTerms

HALF_PER_TERM: Final = 3.0
"""The BM25 score that counts as half of the keyword leg's range, for each term of the query. A score is a sum
over the query's terms: without this, that of a long question drowns its cosine.
"""

KEYWORD_SHARE: Final = 0.7
"""Share of the keyword leg. Both constants are the best cell of a grid over LoCoMo conversations 26 and 30, a
turn weighed with the two before it (`bench/fusion.py`: recall@10 .816; on those held out .791)."""

KEYWORD_SHARE_UNREAD: Final = 0.95
"""The same for a query in a script that the encoder does not read: its cosines say little. Chosen among a few
on XQuAD, MADial and hinglish, whose figures are therefore not held out from it.
"""


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the legs of one query are put together. ``half``: the BM25 score that saturates to one half.
    ``share``: of the keyword leg, in [0, 1].
    """

    half: float
    share: float

    def __post_init__(self) -> None:
        if not self.half > 0:
            raise ValueError(f"half must be positive, it is {self.half}")
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"share must lie between 0 and 1, it is {self.share}")

    @classmethod
    def of(cls, terms: Collection[str], share: float = KEYWORD_SHARE) -> "Fusion":
        """That of a query with these terms; a query without any is treated as one of a single term."""
        return cls(HALF_PER_TERM * max(len(set(terms)), 1), share)

    def saturate(self, keyword: NDArray[np.float32]) -> NDArray[np.float32]:
        """BM25 into [0, 1): ``s / (s + half)``."""
        return (keyword / (keyword + np.float32(self.half))).astype(np.float32, copy=False)

    def relevance(self, dense: NDArray[np.float32], keyword: NDArray[np.float32]) -> NDArray[np.float32]:
        """Relevance in [0, 1] from cosines and *saturated* keyword scores, both shape ``(n,)``."""
        share = np.float32(self.share)
        # Two calls take a tenth of the time of np.clip for a few rows.
        cut = np.minimum(np.maximum(dense, np.float32(0)), np.float32(1))
        return ((1 - share) * cut + share * keyword).astype(np.float32, copy=False)


def keyword_share(query: QueryTerms, scripts: Collection[str]) -> float:
    """The keyword leg's share for a query, where the encoder reads these scripts; empty: all there are.

    It grows from `KEYWORD_SHARE` to `KEYWORD_SHARE_UNREAD` with the share of terms that the encoder cannot
    read.
    """
    return KEYWORD_SHARE + (KEYWORD_SHARE_UNREAD - KEYWORD_SHARE) * query.share_outside(scripts)
