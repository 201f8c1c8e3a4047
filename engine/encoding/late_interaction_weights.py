"""How much each word of a query counts when its tokens are compared with those of a document."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precall.scoring.terms import STOP_WORDS, analyze

STOP_WORD_SHARE: Final = 0.3
"""What a word of grammar counts, as a share of what the query's words of content count on average. The choice
hardly matters: on LoCoMo conversations 26 and 30 (the best 100 of FAST search reranked) recall@10 is .780 at
0, .778 at 0.2, .773 at 0.3, .776 at 0.4 and .777 at 0.5.
Above 0, a query of grammar alone needs no rule of its own.
"""


def word_weights(
    words: Sequence[str], term_weights: Mapping[str, float] | None = None
) -> NDArray[np.float32]:
    """Float32, shape ``(len(words),)``, not negative, at least one above 0 if there is a word.

    ``term_weights`` maps keyword terms (``scoring.terms.analyze``) to how rare they are in the corpus that
    is searched, as ``Statistics.weights`` does; a word of content that is not in it counts like the rarest
    of the query that is. Without it all words of content count alike. Signs count nothing.
    """
    rarities = dict(term_weights or {})
    terms = [analyze(word) for word in words]
    is_stop = [word.casefold() in STOP_WORDS for word in words]
    content = [each for each, stop in zip(terms, is_stop, strict=True) if each and not stop]
    rarest = max((rarities[term] for each in content for term in each if term in rarities), default=1.0)
    weights = np.zeros(len(words), np.float32)
    for place, (each, stop) in enumerate(zip(terms, is_stop, strict=True)):
        if each and not stop:
            weights[place] = max(rarities.get(term, rarest) for term in each)
    average = float(weights.sum()) / len(content) if content else 1.0
    for place, (each, stop) in enumerate(zip(terms, is_stop, strict=True)):
        if each and stop:
            weights[place] = STOP_WORD_SHARE * average
    return weights if weights.any() else np.ones(len(words), np.float32)
