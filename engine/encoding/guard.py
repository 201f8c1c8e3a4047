"""Proves that an encoder computes what its model should, before it may serve and while it serves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precall.engine.encoding.encoder import Encoder, TextRole
from precall.engine.encoding.numerics import unit_rows
from precall.engine.encoding.reranker import Reranker
from precall.engine.errors import ModelUnavailable, NumericsError, PrecallError

PROBE_TEXT = "Is the model answering?"
"""What a readiness probe embeds."""

MINIMUM_AGREEMENT = 0.9999
"""Least cosine between two computations of the same text, whatever the batch."""

LONGEST_CHECKED_WORDS = 512
"""A model that takes tens of thousands of tokens must not take minutes to start on a processor."""

MAXIMUM_SCORE_DIFFERENCE = 1e-2
"""Between two computations of the same pair: float32 keeps them within 1e-3, bfloat16 has two digits less."""


@dataclass(frozen=True, slots=True)
class GoldenPair:
    """Two texts and the cosine that the model's own implementation gives them."""

    query: str
    document: str
    cosine: float
    tolerance: float = 2e-3


class NumericsGuard:
    """Checks one encoder. Blocking; run it off the event loop.

    ``check`` is for start: golden pairs, batch = single, repeat = first. ``probe`` is for readiness.
    """

    def __init__(self, encoder: Encoder, golden_pairs: Sequence[GoldenPair] = ()) -> None:
        self._encoder = encoder
        self._golden_pairs = tuple(golden_pairs)

    def probe(self) -> None:
        """One real forward pass. Raises ``NumericsError`` or ``ModelUnavailable``."""
        self._vectors([PROBE_TEXT], TextRole.QUERY, check="probe")

    def check(self) -> None:
        """Every check. Raises ``NumericsError`` (``metadata["check"]`` names it) or ``ModelUnavailable``."""
        self._check_golden_pairs()
        self._check_batch_and_repeat()

    def _check_golden_pairs(self) -> None:
        for number, pair in enumerate(self._golden_pairs):
            query = self._vectors([pair.query], TextRole.QUERY, check="golden_pairs")
            document = self._vectors([pair.document], TextRole.DOCUMENT, check="golden_pairs")
            cosine = float(query[0] @ document[0])
            if not abs(cosine - pair.cosine) <= pair.tolerance:
                raise NumericsError(
                    f"golden pair {number} has cosine {cosine:.4f} where the model gives {pair.cosine:.4f}: "
                    "wrong weights, tokenizer or pooling; reinstall the model and delete its cached export",
                    metadata={"check": "golden_pairs", "pair": str(number), "cosine": f"{cosine:.6f}"},
                )

    def _check_batch_and_repeat(self) -> None:
        texts = self._length_mix()
        singles = np.concatenate([self._vectors([text], TextRole.DOCUMENT, check="single") for text in texts])
        batch = self._vectors(texts, TextRole.DOCUMENT, check="batch")
        _require_agreement(singles, batch, check="batch_equals_single")
        repeat = self._vectors(texts, TextRole.DOCUMENT, check="repeat")
        _require_agreement(batch, repeat, check="repeat_equals_first")

    def _length_mix(self) -> list[str]:
        """Texts from one word to half the limit, within reason, so that padding would show."""
        longest = min(self._encoder.card.max_tokens // 2, LONGEST_CHECKED_WORDS)
        return [" ".join(["memory"] * words) for words in sorted({1, 5, 17, min(60, longest), longest})]

    def _vectors(self, texts: Sequence[str], role: TextRole, *, check: str) -> NDArray[np.float32]:
        """Unit vectors, float32, shape ``(len(texts), dimension)``."""
        dimension = self._encoder.card.dimension
        try:
            tokenized = [self._encoder.tokenize(text, role, truncate=True) for text in texts]
            encoded = self._encoder.encode(tokenized)
        except PrecallError:
            raise
        except Exception as error:
            raise ModelUnavailable(
                f"the numerics guard's check {check!r} could not run: {type(error).__name__}: {error}",
                metadata={"check": check},
            ) from error
        if encoded.vectors.shape != (len(texts), dimension):
            raise NumericsError(
                f"the numerics guard's check {check!r} got vectors of shape {encoded.vectors.shape} "
                f"where the model's card promises {(len(texts), dimension)}",
                metadata={"check": check},
            )
        checked = unit_rows(encoded.vectors, encoded.errors)
        if checked.errors:
            row, fault = next(iter(checked.errors.items()))
            raise NumericsError(
                f"the numerics guard's check {check!r} failed on text {row}: {fault.message}",
                metadata={"check": check, "text": str(row)},
            ) from fault
        return checked.vectors


class RerankerGuard:
    """The same for a reranker: a batch of unlike pairs = each alone = the batch once more. Blocking."""

    _QUERY = "What food must Dana avoid?"
    _DOCUMENTS = ("Dana is allergic to peanuts.", "The kettle is broken again. " * 12, "memory")

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker

    def check(self) -> None:
        """Raises ``NumericsError`` (``metadata["check"]`` names it) or ``ModelUnavailable``."""
        singles = np.concatenate([self._scores([document]) for document in self._DOCUMENTS])
        batch = self._scores(self._DOCUMENTS)
        for check, first, second in (
            ("batch_equals_single", singles, batch),
            ("repeat_equals_first", batch, self._scores(self._DOCUMENTS)),
        ):
            difference = float(np.abs(first - second).max())
            if not difference <= MAXIMUM_SCORE_DIFFERENCE:
                raise NumericsError(
                    f"the reranker's check {check!r} failed: the scores of one pair differ by "
                    f"{difference:.4f} (at most {MAXIMUM_SCORE_DIFFERENCE}); do not serve with this runtime",
                    metadata={"check": check, "difference": f"{difference:.6f}"},
                )

    def _scores(self, documents: Sequence[str]) -> NDArray[np.float32]:
        """Float32, shape ``(len(documents),)``."""
        pairs = [self._reranker.tokenize(self._QUERY, document, truncate=True) for document in documents]
        batch = self._reranker.score(pairs)
        for fault in batch.errors.values():
            raise fault
        return batch.scores


def _require_agreement(first: NDArray[np.float32], second: NDArray[np.float32], *, check: str) -> None:
    cosines = np.einsum("ij,ij->i", first, second)
    worst = int(np.argmin(cosines))
    if not cosines[worst] >= MINIMUM_AGREEMENT:
        raise NumericsError(
            f"the numerics guard's check {check!r} failed: text {worst} got two vectors with cosine "
            f"{cosines[worst]:.5f} (at least {MINIMUM_AGREEMENT} is needed); do not serve with this runtime",
            metadata={"check": check, "text": str(worst), "cosine": f"{cosines[worst]:.6f}"},
        )
