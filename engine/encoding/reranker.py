"""What every reranking model looks like to the engine."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import TokenizedText
from precall.engine.errors import PrecallError
from precall.scoring.query_terms import QueryTerms


@dataclass(frozen=True)
class RerankerCard:
    """Everything that changes a score. ``prompt`` is the whole text of a pair, in which ``{instruction}``,
    ``{query}`` and ``{document}`` stand for its parts.
    """

    name: str
    revision: str
    weights_sha256: str
    max_tokens: int
    prompt: str
    instruction: str

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the card as canonical JSON, its first 16 bytes in hex."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class RerankedBatch:
    """Relevances in [0, 1], float32, shape ``(n,)``; that of a failed pair is 0 and in ``errors``."""

    scores: NDArray[np.float32]
    errors: dict[int, PrecallError] = field(default_factory=dict)


class Reranker(Protocol):
    """A model that reads a query and a document together and says how well the one answers the other.

    Thread-safe; neither method touches the event loop. Invariants: the score of a pair does not depend on
    the batch it came in (to 1e-3) nor on repetition; no score is NaN without an entry in
    ``RerankedBatch.errors``. Scores of one model compare with each other and with nothing else.
    """

    @property
    def card(self) -> RerankerCard: ...

    def search_share(self, asked: QueryTerms) -> float:
        """Share of its score in the relevance of an ACCURATE search, in [0, 1], for a query of these terms;
        the fused relevance of the search's own legs has the rest.
        """
        ...

    def tokenize(
        self,
        query: str,
        document: str,
        *,
        truncate: bool,
        instruction: str | None = None,
        term_weights: Mapping[str, float] | None = None,
    ) -> TokenizedText:
        """One pair, prompted; its usage counts the whole prompt. ``instruction`` replaces the card's.

        ``term_weights``: how rare the query's keyword terms are in the corpus that is searched, as
        `Statistics.weights` says it; a model that reads for itself passes it over.

        Raises ``TextTooLong`` for a pair over ``card.max_tokens``, unless ``truncate`` lets the document lose
        its end; ``InvalidInput`` for an empty half.
        """
        ...

    def score(self, pairs: Sequence[TokenizedText]) -> RerankedBatch:
        """Forward passes over a non-empty batch; blocks."""
        ...

    def close(self) -> None: ...
