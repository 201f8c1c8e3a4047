"""Dense and keyword evidence made one relevance, from the two scores of the item alone.

Scores are added, not ranks: a rank depends on which other candidates were seen, and a cache sees fewer
than the server; a sum of two bounded scores is the same wherever it is computed.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

KEYWORD_HALF: Final = 16.0
"""The BM25 score that counts as half of the keyword leg's range."""

KEYWORD_SHARE: Final = 0.6
"""Share of the keyword leg. Both constants lie on the plateau of a grid over LoCoMo conversations 26 and 30
(`bench/fusion.py`: recall@10 .697, the best cell .699; on the conversations held out .686)."""


def saturate(keyword: NDArray[np.float32]) -> NDArray[np.float32]:
    """BM25 into [0, 1): ``s / (s + KEYWORD_HALF)``."""
    return (keyword / (keyword + np.float32(KEYWORD_HALF))).astype(np.float32, copy=False)


def relevance(dense: NDArray[np.float32], keyword: NDArray[np.float32]) -> NDArray[np.float32]:
    """Relevance in [0, 1] from cosines and *saturated* keyword scores, both shape ``(n,)``."""
    share = np.float32(KEYWORD_SHARE)
    return ((1 - share) * np.clip(dense, 0.0, 1.0) + share * keyword).astype(np.float32, copy=False)
